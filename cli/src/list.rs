//! `orrery list`: what there is to run, and on what.

use scenarios::load;
use serde_json::json;

use crate::args::List;
use crate::exit::{Code, Failure};
use crate::run::profiles;

pub fn list(args: &List) -> Result<(), Failure> {
    let profiles = profiles(&args.profiles)?;
    if !args.json {
        println!("scenarios");
    }
    for name in load::names() {
        let experiment = load::find(name).and_then(|document| load::read(&document, &profiles));
        let experiment = experiment.map_err(|error| Failure { code: Code::Invalid, report: error })?;
        let about = &experiment.scenario.about;
        let systems: Vec<&str> = experiment.runs.iter().map(|run| run.system.name.as_str()).collect();
        if args.json {
            println!("{}", json!({"kind": "scenario", "name": name, "about": about, "systems": systems}));
        } else {
            println!("  {name:24} {about}");
        }
    }
    let kinds = [
        ("systems", profiles.systems.values().map(|p| (&p.name, &p.about)).collect::<Vec<_>>()),
        ("instances", profiles.instances.values().map(|p| (&p.name, &p.about)).collect()),
        ("disks", profiles.disks.values().map(|p| (&p.name, &p.about)).collect()),
        ("networks", profiles.networks.values().map(|p| (&p.name, &p.about)).collect()),
        ("processors", profiles.processors.values().map(|p| (&p.name, &p.about)).collect()),
    ];
    for (kind, entries) in kinds {
        if !args.json {
            println!("{kind}");
        }
        for (name, about) in entries {
            match args.json {
                true => println!("{}", json!({"kind": kind.trim_end_matches('s'), "name": name, "about": about})),
                false => println!("  {name:24} {about}"),
            }
        }
    }
    Ok(())
}
