//! Making a trace from a seed.

use fastrand::Rng;

use crate::{
    Request, TOKENS_PER_BLOCK,
    lengths::{LongTail, wait},
};

/// The knobs of a generated trace. The defaults resemble an hour of a public chat service: about
/// 24 blocks a request, half of them below 14, and somewhat more than a third of all blocks seen
/// before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Mean time between two requests, in milliseconds; arrivals are a Poisson process.
    pub mean_gap_ms: f64,
    /// How many system prompts there are; each conversation begins with one, the first most often.
    pub system_prompts: usize,
    /// The share of requests that go on with an earlier conversation, 0 to 1.
    pub follow_ups: f64,
    /// How many conversations can go on at one time; the oldest is given up.
    pub open_conversations: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            mean_gap_ms: 294.0,
            system_prompts: 4,
            follow_ups: 0.45,
            open_conversations: 400,
        }
    }
}

const SYSTEM_PROMPT: LongTail = LongTail {
    median: 700.0,
    spread: 0.5,
    min: 512,
    max: 2048,
};
const FIRST_QUESTION: LongTail = LongTail {
    median: 5000.0,
    spread: 1.35,
    min: 64,
    max: 120_000,
};
const NEXT_QUESTION: LongTail = LongTail {
    median: 1200.0,
    spread: 1.3,
    min: 16,
    max: 60_000,
};
const ANSWER: LongTail = LongTail {
    median: 330.0,
    spread: 0.8,
    min: 1,
    max: 2000,
};

/// Conversations are not longer than this many tokens, as a model's context is not.
const CONTEXT: u64 = 126_000;

/// An endless trace: conversations that begin with a shared system prompt and grow by turns, so
/// that a turn finds the blocks of the turn before. The same seed gives the same trace.
#[derive(Clone, Debug)]
pub struct Generator {
    shape: Shape,
    rng: Rng,
    at_ms: f64,
    next_id: u64,
    prompts: Vec<Conversation>,
    open: Vec<Conversation>,
}

/// The text so far: its length, and the ids of its blocks, of which the last may be unfinished.
#[derive(Clone, Debug, Default)]
struct Conversation {
    tokens: u64,
    blocks: Vec<u64>,
}

impl Generator {
    /// A trace with the default shape.
    pub fn new(seed: u64) -> Self {
        Self::with_shape(seed, Shape::default())
    }

    /// A trace with a shape of one's own. At least one system prompt and one open conversation
    /// are kept.
    pub fn with_shape(seed: u64, shape: Shape) -> Self {
        let mut generator = Self {
            shape,
            rng: Rng::with_seed(seed),
            at_ms: 0.0,
            next_id: 0,
            prompts: Vec::new(),
            open: Vec::new(),
        };
        for _ in 0..shape.system_prompts.max(1) {
            let tokens = SYSTEM_PROMPT.draw(&mut generator.rng);
            // Only its whole blocks can be shared; the question begins right behind.
            let whole = tokens / TOKENS_PER_BLOCK * TOKENS_PER_BLOCK;
            let prompt = generator.grown(Conversation::default(), whole);
            generator.prompts.push(prompt);
        }
        generator
    }

    /// `conversation` with `tokens` more at its end.
    fn grown(&mut self, mut conversation: Conversation, tokens: u64) -> Conversation {
        // An unfinished block becomes another block when it is filled up.
        let whole = conversation.tokens / TOKENS_PER_BLOCK;
        conversation.blocks.truncate(whole as usize);
        conversation.tokens = (conversation.tokens + tokens).min(CONTEXT);
        while (conversation.blocks.len() as u64) * TOKENS_PER_BLOCK < conversation.tokens {
            conversation.blocks.push(self.next_id);
            self.next_id += 1;
        }
        conversation
    }

    /// Number k is drawn half as often as number k/2.
    fn any_prompt(&mut self) -> Conversation {
        let weights = || (1..=self.prompts.len()).map(|rank| 1.0 / rank as f64);
        let mut left = self.rng.f64() * weights().sum::<f64>();
        let place = weights().position(|weight| {
            left -= weight;
            left < 0.0
        });
        self.prompts[place.unwrap_or(0)].clone()
    }

    fn next_prompt(&mut self) -> Conversation {
        if !self.open.is_empty() && self.rng.f64() < self.shape.follow_ups {
            // People answer soon: the younger half of the open conversations goes on more often.
            let (a, b) = (
                self.rng.usize(..self.open.len()),
                self.rng.usize(..self.open.len()),
            );
            let earlier = self.open.remove(a.max(b));
            let tokens = NEXT_QUESTION.draw(&mut self.rng);
            self.grown(earlier, tokens)
        } else {
            let prompt = self.any_prompt();
            let tokens = FIRST_QUESTION.draw(&mut self.rng);
            self.grown(prompt, tokens)
        }
    }
}

impl Iterator for Generator {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let prompt = self.next_prompt();
        let output_tokens = ANSWER.draw(&mut self.rng);
        let request = Request {
            at_ms: self.at_ms as u64,
            input_tokens: prompt.tokens,
            output_tokens,
            hash_ids: prompt.blocks.clone(),
        };
        self.at_ms += wait(&mut self.rng, self.shape.mean_gap_ms);
        if prompt.tokens + output_tokens < CONTEXT {
            if self.open.len() >= self.shape.open_conversations.max(1) {
                self.open.remove(0);
            }
            let answered = self.grown(prompt, output_tokens);
            self.open.push(answered);
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    fn requests(seed: u64, count: usize) -> Vec<Request> {
        Generator::new(seed).take(count).collect()
    }

    #[test]
    fn the_shape_is_that_of_a_chat_service() {
        let requests = requests(42, 6000);
        let mut lengths: Vec<_> = requests.iter().map(|r| r.hash_ids.len()).collect();
        lengths.sort_unstable();
        let mean = lengths.iter().sum::<usize>() as f64 / 6000.0;
        assert!((18.0..30.0).contains(&mean), "mean {mean}");
        assert!((9..20).contains(&lengths[3000]), "median {}", lengths[3000]);
        assert!(lengths[5940] > 100, "99 % {}", lengths[5940]);

        let mut seen = HashSet::new();
        let (mut hits, mut follow_ups) = (0, 0);
        for request in &requests {
            let hit = request
                .hash_ids
                .iter()
                .take_while(|id| seen.contains(*id))
                .count();
            hits += hit;
            follow_ups += usize::from(hit > 4);
            seen.extend(request.hash_ids.iter().copied());
        }
        let ratio = hits as f64 / lengths.iter().sum::<usize>() as f64;
        assert!((0.30..0.50).contains(&ratio), "hit ratio {ratio}");
        assert!(follow_ups > 1500, "follow-ups {follow_ups}");

        let hours = requests.last().unwrap().at_ms as f64 / 3_600_000.0;
        assert!((0.45..0.53).contains(&hours), "{hours} h");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_seed_gives_one_trace(seed in any::<u64>()) {
            let first = requests(seed, 60);
            prop_assert_eq!(&first, &requests(seed, 60));
            prop_assert_ne!(&first, &requests(seed.wrapping_add(1), 60));
        }

        #[test]
        fn an_id_always_follows_the_same_id_and_fits_the_length(seed in any::<u64>()) {
            let mut before: HashMap<u64, Option<u64>> = HashMap::new();
            let mut last = 0;
            for request in requests(seed, 400) {
                prop_assert!(request.at_ms >= last);
                last = request.at_ms;
                let blocks = request.input_tokens.div_ceil(TOKENS_PER_BLOCK);
                prop_assert_eq!(blocks, request.hash_ids.len() as u64);
                let mut previous = None;
                for id in request.hash_ids {
                    prop_assert_eq!(*before.entry(id).or_insert(previous), previous);
                    previous = Some(id);
                }
            }
        }
    }
}
