//! Times in which a device does less than it should, or nothing: they come by themselves, again and again.

use crate::disk::model::EpisodeModel;
use crate::random::Generator;

struct Recurring {
    model: EpisodeModel,
    begins_at: u64,
    ends_at: u64,
}

pub(crate) struct Episodes {
    all: Vec<Recurring>,
    random: Generator,
}

/// What is left of a device's rates now, and until when nothing begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Left {
    pub rates: f64,
    pub stalled_until: u64,
}

impl Recurring {
    /// From half to one and a half times the mean, evenly: no function of the C library.
    fn plan(&mut self, after: u64, random: &mut Generator) {
        self.begins_at = after + self.model.every_ns / 2 + random.below(self.model.every_ns.max(1));
        self.ends_at = self.begins_at + self.model.length.sample(random.next_u64());
    }
}

impl Episodes {
    pub fn new(models: &[EpisodeModel], random: Generator) -> Self {
        let all = models.iter().map(|model| Recurring { model: model.clone(), begins_at: 0, ends_at: 0 }).collect();
        let mut episodes = Self { all, random };
        episodes.all.iter_mut().for_each(|episode| episode.plan(0, &mut episodes.random));
        episodes
    }

    pub fn left(&mut self, at: u64) -> Left {
        let mut left = Left { rates: 1.0, stalled_until: 0 };
        for episode in &mut self.all {
            while episode.ends_at <= at {
                episode.plan(episode.ends_at, &mut self.random);
            }
            if episode.begins_at > at {
                continue;
            }
            if episode.model.rates_left <= 0.0 {
                left.stalled_until = left.stalled_until.max(episode.ends_at);
            } else {
                left.rates *= episode.model.rates_left;
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latency;

    #[test]
    fn they_come_as_often_and_last_as_long_as_they_should() {
        let model = |rates_left, length_ns| EpisodeModel {
            every_ns: 1_000_000_000,
            length: Latency::constant(length_ns),
            rates_left,
            busy: 0.0,
        };
        let models = [model(0.0, 20_000_000), model(0.5, 100_000_000)];
        let mut episodes = Episodes::new(&models, Generator::new(1));
        let (mut stalled_ms, mut slow_ms) = (0, 0);
        for ms in 0..1_000_000u64 {
            let left = episodes.left(ms * 1_000_000);
            stalled_ms += u64::from(left.stalled_until > 0);
            slow_ms += u64::from(left.rates < 1.0);
        }
        // 20 ms of 1,020 and 100 ms of 1,100.
        assert!((19_000..20_300).contains(&stalled_ms), "{stalled_ms}");
        assert!((88_000..94_000).contains(&slow_ms), "{slow_ms}");
    }
}
