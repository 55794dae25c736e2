//! What callers send: bytes that nobody can foretell.

use bytes::{Bytes, BytesMut};

use super::Plan;

/// The number of bytes at the end of the data that are new in each call.
const FRESH: usize = 8;

/// What is asked, and answered: of echo the id and the data, of chat the number and the data,
/// of ping nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Message {
    pub number: u64,
    pub data: Bytes,
}

/// SplitMix64, which is fast and not guessed by a server.
pub struct Random(u64);

impl Random {
    /// Equal seeds make equal bytes; callers differ.
    pub fn new(seed: u64, caller: usize) -> Random {
        Random(seed ^ (caller as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    fn next(&mut self) -> [u8; FRESH] {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    }

    pub fn fill(&mut self, data: &mut [u8]) {
        for part in data.chunks_mut(FRESH) {
            part.copy_from_slice(&self.next()[..part.len()]);
        }
    }

    /// Makes the data's end new, so that no answer can be known before its request.
    pub fn freshen(&mut self, data: &mut [u8]) {
        let end = data.len().saturating_sub(FRESH);
        let end = &mut data[end..];
        end.copy_from_slice(&self.next()[..end.len()]);
    }
}

/// A caller's messages, whose memory is used again.
pub struct Filling {
    random: Random,
    message: Message,
    counts: bool,
}

impl Filling {
    pub fn new(plan: &Plan, caller: usize) -> Filling {
        let mut random = Random::new(plan.client.seed, caller);
        let mut data = vec![0; plan.workload.request_bytes];
        random.fill(&mut data);
        let counts = plan.workload.name != "ping";
        let data = if counts { Bytes::from(data) } else { Bytes::new() };
        Filling { random, message: Message { number: 0, data }, counts }
    }

    pub fn next(&mut self) -> &Message {
        if self.counts {
            self.message.number += 1;
            let last = std::mem::take(&mut self.message.data);
            // It is copied only where a library still holds the last call's.
            let mut data = last.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
            self.random.freshen(&mut data);
            self.message.data = data.freeze();
        }
        &self.message
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn only_the_end_is_new() {
        let mut random = Random::new(7, 0);
        let mut data = vec![0; 20];
        random.fill(&mut data);
        let before = data.clone();
        random.freshen(&mut data);
        assert_eq!(data[..12], before[..12]);
        assert_ne!(data[12..], before[12..]);
        let mut short = [0; 3];
        random.freshen(&mut short);
        assert_ne!(short, [0; 3]);
    }
}
