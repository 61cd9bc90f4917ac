//! Apache Cassandra's classes, from Maven Central, and processes that run them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const VERSION: &str = "4.1.10";

/// What Cassandra opens for itself on Java 11 and later (`conf/jvm11-server.options`), as far as offline tools need it.
const OPENED: [&str; 14] = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
];

pub struct Tools {
    class_path: String,
    scratch: PathBuf,
}

impl Tools {
    /// Fetches the classes once; `scratch` gets settings and compiled helpers.
    pub fn install(scratch: &Path) -> Self {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../peers");
        let place = cache.join(format!("cassandra-all-{VERSION}"));
        fs::create_dir_all(&place).unwrap();
        let lock = File::create(cache.join("cassandra.lock")).unwrap();
        lock.lock().unwrap();
        if !place.join("ready").exists() {
            let pom = format!(
                "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
                 <groupId>t</groupId><artifactId>t</artifactId><version>1</version><dependencies><dependency>\
                 <groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId>\
                 <version>{VERSION}</version></dependency></dependencies></project>"
            );
            fs::write(place.join("pom.xml"), pom).unwrap();
            let mut maven = Command::new("mvn");
            maven.args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]).current_dir(&place);
            finish(&mut maven, "Maven and its central repository are needed once");
            File::create(place.join("ready")).unwrap();
        }
        drop(lock);
        let jars = place.join("lib").canonicalize().unwrap();
        let settings = format!(
            "cluster_name: t\npartitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
             data_file_directories: [ {0}/tool/data ]\ncommitlog_directory: {0}/tool/commitlog\n\
             saved_caches_directory: {0}/tool/caches\nhints_directory: {0}/tool/hints\n\
             cdc_raw_directory: {0}/tool/cdc\ncommitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n\
             listen_address: 127.0.0.1\nendpoint_snitch: SimpleSnitch\nseed_provider: \
             [ {{ class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [ {{ seeds: \"127.0.0.1\" }} ] }} ]\n",
            scratch.display()
        );
        fs::write(scratch.join("cassandra.yaml"), settings).unwrap();
        fs::write(scratch.join("logback.xml"), "<configuration><root level=\"OFF\"/></configuration>").unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cassandra/Inspect.java");
        let jars = format!("{}/*", jars.display());
        let mut javac = Command::new("javac");
        javac.args(["-cp", &jars, "-d"]).arg(scratch.join("classes")).arg(source);
        finish(&mut javac, "a Java development kit (17 or later) is needed");
        Self { class_path: format!("{}:{jars}", scratch.join("classes").display()), scratch: scratch.to_path_buf() }
    }

    /// Runs a class's `main`; what it printed.
    pub fn run(&self, class: &str, arguments: &[String]) -> String {
        let mut java = Command::new("java");
        java.args(["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Djdk.attach.allowAttachSelf=true"]);
        for package in OPENED {
            java.arg(format!("--add-opens={package}=ALL-UNNAMED"));
            java.arg(format!("--add-exports={package}=ALL-UNNAMED"));
        }
        java.arg(format!("-Dcassandra.config=file://{}/cassandra.yaml", self.scratch.display()))
            .arg(format!("-Dcassandra.storagedir={}/tool", self.scratch.display()))
            .arg(format!("-Dlogback.configurationFile={}/logback.xml", self.scratch.display()))
            .args(["-cp", &self.class_path, class])
            .args(arguments);
        finish(&mut java, "Cassandra's class failed")
    }
}

fn finish(command: &mut Command, need: &str) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{need}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{need}; {command:?} ended with {}\n{text}\n{errors}", output.status);
    text
}
