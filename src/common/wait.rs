//! Waiting, apart from what is waited for: a bell that threads sleep on, a deadline, and the manner that the user chose.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use rustix::thread::futex;

/// How completions are waited for (`gpu_wait`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Poll without a pause.
    Spin,
    /// Poll, and let others run in between.
    Yield,
    /// Sleep until woken.
    Block,
}

/// Turns of polling before [`Manner::Yield`] gives the processor away.
const TURNS_BEFORE_YIELD: u32 = 64;

impl Manner {
    /// Passes a moment until the bell that `ticket` was taken from may have rung. `turns` counts the calls for one wait.
    #[inline]
    pub fn pause(self, turns: &mut u32, bell: &Bell, ticket: Ticket, deadline: &Deadline) {
        if self.polls(turns) {
            std::hint::spin_loop();
        } else if self == Self::Yield {
            std::thread::yield_now();
        } else {
            bell.sleep(ticket, deadline.left());
        }
    }

    /// Whether to look again at once, rather than to give the processor away. `turns` counts the calls for one wait.
    #[inline]
    pub fn polls(self, turns: &mut u32) -> bool {
        *turns += 1;
        match self {
            Self::Spin => true,
            Self::Yield => *turns < TURNS_BEFORE_YIELD,
            Self::Block => false,
        }
    }
}

/// When a wait ends at the latest; it shrinks over several blocking calls. The time starts at the first look at it, so that a wait that
/// finds everything there never asks for the time.
pub struct Deadline {
    timeout: Option<Duration>,
    /// Once the time has started; `None` inside for a time that is too long for the clock.
    end: OnceCell<Option<Instant>>,
}

impl Deadline {
    /// `None` waits for ever. A time too long for the clock is for ever, too.
    pub fn after(timeout: Option<Duration>) -> Self {
        Self { timeout, end: OnceCell::new() }
    }

    fn end(&self) -> Option<Instant> {
        *self.end.get_or_init(|| Instant::now().checked_add(self.timeout?))
    }

    #[inline]
    pub fn is_past(&self) -> bool {
        match self.timeout {
            None => false,
            Some(Duration::ZERO) => true,
            Some(_) => self.end().is_some_and(|end| Instant::now() >= end),
        }
    }

    /// Whichever of the two ends first.
    pub fn sooner<'a>(&'a self, other: &'a Self) -> &'a Self {
        match (self.end(), other.end()) {
            (Some(own), Some(others)) if own <= others => self,
            (Some(_), None) => self,
            _ => other,
        }
    }

    /// What is left of it; `None` for ever.
    pub fn left(&self) -> Option<Duration> {
        self.timeout?;
        self.end().map(|end| end.saturating_duration_since(Instant::now()))
    }
}

/// What one thread rings and others sleep on; no ring is lost between a look at what it announces and the sleep.
#[derive(Default)]
pub struct Bell {
    rings: AtomicU32,
    sleepers: AtomicU32,
}

/// The rings so far, taken before looking at what the bell announces.
#[derive(Clone, Copy)]
pub struct Ticket(u32);

impl Bell {
    #[inline]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.rings.load(Ordering::Acquire))
    }

    /// Announces `news` new things: wakes as many sleepers. Costs no system call where nobody sleeps.
    #[inline]
    pub fn ring(&self, news: usize) {
        if news == 0 {
            return;
        }
        self.rings.fetch_add(1, Ordering::Release);
        fence(Ordering::SeqCst); // pairs with the one in sleep(): either it sees the ring, or this sees the sleeper
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            let _ = futex::wake(&self.rings, futex::Flags::PRIVATE, u32::try_from(news).unwrap_or(u32::MAX).min(i32::MAX as u32));
        }
    }

    /// Sleeps until the bell has rung since `ticket`, or for `most`. May return early.
    pub fn sleep(&self, ticket: Ticket, most: Option<Duration>) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let most = most.and_then(|t| futex::Timespec::try_from(t).ok());
        // Woken, changed, interrupted or timed out: the caller looks again in every case.
        let _ = futex::wait(&self.rings, futex::Flags::PRIVATE, ticket.0, most.as_ref());
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_begins_with_the_first_look_and_shrinks() {
        let (short, long) = (Deadline::after(Some(Duration::from_millis(5))), Deadline::after(Some(Duration::from_secs(60))));
        std::thread::sleep(Duration::from_millis(10));
        assert!(short.left().is_some() && long.left().is_some_and(|left| left > Duration::from_secs(50)));
        std::thread::sleep(Duration::from_millis(10));
        assert!(short.is_past());
        assert!(long.left().is_some_and(|left| left <= Duration::from_secs(60) - Duration::from_millis(10)));
    }

    #[test]
    fn no_time_is_past_at_once_and_for_ever_never() {
        assert!(Deadline::after(Some(Duration::ZERO)).is_past());
        let for_ever = [Deadline::after(None), Deadline::after(Some(Duration::MAX))];
        assert!(for_ever.iter().all(|deadline| !deadline.is_past() && deadline.left().is_none()));
    }

    #[test]
    fn the_sooner_of_two_is_the_one_that_ends_first() {
        let (short, long, for_ever) =
            (Deadline::after(Some(Duration::from_secs(1))), Deadline::after(Some(Duration::from_secs(9))), Deadline::after(None));
        assert!(std::ptr::eq(short.sooner(&long), &short) && std::ptr::eq(long.sooner(&short), &short));
        assert!(std::ptr::eq(for_ever.sooner(&long), &long) && std::ptr::eq(long.sooner(&for_ever), &long));
    }
}
