//! A second attempt beside a first one that has had no response for long. The client gets what comes first.

use std::pin::pin;
use std::time::{Duration, Instant};

use tidegate_http::client::Trouble;
use tidegate_policy::breaker::Call;
use tidegate_policy::endpoints::Tried;
use tidegate_policy::journey::Step;
use tidegate_wait::Slot;
use tokio::select;
use tokio::time::sleep;

use crate::admission::{Admission, admit};
use crate::attempt::{Chosen, Ended, Outgoing, Permitted, Preferred, attempt, choose};
use crate::passage::{Passage, may_come_twice};
use crate::request_body::{Replayable, RequestBody};
use crate::request_context::RequestContext;
use crate::response::Response;
use crate::stages::Side;

/// A first attempt that may get a second one beside it, and what it takes to send it.
pub(crate) struct Hedged {
    pub(crate) chosen: Chosen,
    pub(crate) permitted: Permitted,
    pub(crate) body: Option<RequestBody>,
    /// None: it has no body.
    pub(crate) replayable: Option<Box<Replayable>>,
    /// For how long the first attempt is waited for.
    pub(crate) after: Duration,
}

/// What a second attempt holds that has passed its policies.
struct Passed {
    within: Option<Duration>,
    call: Option<Call>,
    slot: Option<Slot>,
    admission: Option<Box<Admission>>,
}

impl Passage<'_> {
    /// After how long without a response the request gets a second attempt. None: it gets none.
    #[inline]
    pub(crate) fn hedge_after(&self, context: &RequestContext<'_>, outgoing: &Outgoing<'_>) -> Option<Duration> {
        let interaction = self.interaction?;
        let (delay, retry) = (interaction.hedge.as_ref()?, interaction.retry.as_ref()?);
        let framing = &outgoing.framing;
        // What is said on an upgraded connection is no exchange that could be made twice.
        let may = framing.upgrade.is_none()
            && (framing.is_whole || !framing.has_body)
            && may_come_twice(context, outgoing, retry);
        if may { delay.delay(self.at) } else { None }
    }

    /// Responds to a request that may get a second attempt.
    pub(crate) async fn respond_hedged(
        &mut self,
        context: &mut RequestContext<'_>,
        outgoing: &Outgoing<'_>,
        first: Hedged,
    ) -> Response {
        let Hedged { mut chosen, permitted, body, replayable, after } = first;
        let again = replayable.as_deref();
        let ended = self.attempt_hedged(context, outgoing, &mut chosen, (permitted, body), again, after).await;
        context.settlement.hold = Some(chosen.hold);
        match ended {
            Ok(response) if !self.repeats(&response) => self.respond_with(context, response),
            ended => self.go_on(context, outgoing, ended, replayable).await,
        }
    }

    /// Makes the first attempt, and a second one beside it if the first has had no response for long. Afterwards
    /// `chosen` is what the attempt holds that is returned: the one that succeeded, or one of two that failed.
    async fn attempt_hedged(
        &mut self,
        context: &mut RequestContext<'_>,
        outgoing: &Outgoing<'_>,
        chosen: &mut Chosen,
        (permitted, body): (Permitted, Option<RequestBody>),
        replayable: Option<&Replayable>,
        after: Duration,
    ) -> Ended {
        let (started, first_index) = (permitted.started, chosen.hold.in_flight.index());
        let (decided, second) = {
            let context = &*context;
            let mut first = pin!(attempt(context, outgoing, chosen, permitted, body));
            let prepared = select! {
                biased;
                ended = &mut first => Err(ended),
                prepared = async {
                    sleep(after).await;
                    self.prepare_hedge(context, outgoing, first_index).await
                } => Ok(prepared),
            };
            let (mut second_chosen, permitted) = match prepared {
                Ok(Some(prepared)) => prepared,
                Ok(None) => return first.await,
                Err(ended) => {
                    // It may have ended while Redis was asked for the second one.
                    self.journey().go_without_hedge();
                    return ended;
                }
            };
            let body = replayable.map(Replayable::body);
            let decided = {
                let mut second = pin!(attempt(context, outgoing, &mut second_chosen, permitted, body));
                let (ended, is_second) = select! {
                    biased;
                    ended = &mut first => (ended, false),
                    ended = &mut second => (ended, true),
                };
                match (self.is_good(&ended), is_second) {
                    (true, _) => Decided { ended, is_second, is_good: true, has_failed: false, other: None },
                    (false, false) => self.decided(ended, second.await, true),
                    (false, true) => self.decided(ended, first.await, false),
                }
            };
            (decided, second_chosen)
        };
        if let Some((number, trouble)) = &decided.other {
            outgoing.upstream.repeated(*number, trouble);
        }
        let second_index = second.hold.in_flight.index();
        self.also_tried = (!decided.is_good).then_some(if decided.is_second { first_index } else { second_index });
        if decided.is_second {
            self.second_decides(context, outgoing, chosen, second, &decided, started);
        }
        decided.ended
    }

    /// What the second attempt holds is what counts.
    fn second_decides(
        &self,
        context: &mut RequestContext<'_>,
        outgoing: &Outgoing<'_>,
        chosen: &mut Chosen,
        mut second: Chosen,
        decided: &Decided,
        started: Instant,
    ) {
        context.settlement.admissions.replace_upstream(second.own_admission.take());
        let first = std::mem::replace(chosen, second);
        let Some(interaction) = self.interaction.filter(|_| decided.is_good) else { return };
        interaction.stats.hedges_won.inc();
        if !decided.has_failed {
            // Without the first, which would have taken longer, what is slow would be left out.
            let (took, now) = (started.elapsed(), context.worker.gateway.now());
            first.hold.in_flight.overtaken(took, now);
            outgoing.upstream.stats.metrics.overtaken(took);
            interaction.note_latency(None, took, now);
        }
    }

    /// Chooses the attempt that decides the response, after the `earlier` one has failed.
    fn decided(&self, earlier: Ended, later: Ended, is_second: bool) -> Decided {
        let is_good = self.is_good(&later);
        let number = |is_second| if is_second { 2 } else { 1 };
        // Of two failures a response is better than none, and the upstream's doing better than our own.
        let is_own = |ended: &Ended| ended.as_ref().is_err_and(|failed| failed.trouble.is_rejection());
        let (ended, other, is_second) = match (earlier, later) {
            (earlier @ Ok(_), later @ Err(_)) => (earlier, later, !is_second),
            (earlier, later) if is_own(&later) => (earlier, later, !is_second),
            (earlier, later) => (later, earlier, is_second),
        };
        let other = other.err().filter(|failed| !failed.trouble.is_rejection());
        let other = other.map(|failed| (number(!is_second), failed.trouble));
        Decided { ended, is_second, is_good, has_failed: true, other }
    }

    /// Whether an attempt needs no other.
    fn is_good(&self, ended: &Ended) -> bool {
        ended.as_ref().is_ok_and(|response| !self.repeats(response))
    }

    /// Passes the policies for a second attempt, and chooses its endpoint: another one, if there is one. None: it is
    /// not permitted, or something would have to be waited for.
    async fn prepare_hedge(
        &mut self,
        context: &RequestContext<'_>,
        outgoing: &Outgoing<'_>,
        first: usize,
    ) -> Option<(Chosen, Permitted)> {
        self.note_time(context);
        let (interaction, at) = (self.interaction?, self.at);
        let budget = interaction.budget.as_deref();
        if interaction.breaker.as_ref().is_some_and(|breaker| breaker.rejects(at))
            || budget.is_some_and(|budget| !budget.has_left(at))
        {
            return None;
        }
        let mut tried = Tried::new();
        tried.insert(first);
        let mut chosen = choose(context, outgoing, &Preferred::Available(&tried), at, None).ok()?;
        self.journey().hedge(at).ok()?;
        let passed = self.pass_without_waiting(context).await;
        let passed = passed.filter(|_| budget.is_none_or(|budget| budget.take(self.at)));
        let Some(Passed { within, call, slot, admission }) = passed else {
            self.journey().go_without_hedge();
            return None;
        };
        if let Some(slot) = slot {
            chosen.hold.enter(slot);
        }
        chosen.own_admission = admission;
        interaction.stats.hedges.inc();
        self.note_time(context);
        Some((chosen, self.permitted(within, call, None)))
    }

    /// Passes the policies if that takes no time but that of asking Redis.
    async fn pass_without_waiting(&mut self, context: &RequestContext<'_>) -> Option<Passed> {
        let (interaction, resolved) = (self.interaction?, self.resolved);
        let (mut call, mut slot, mut admission) = (None, None, None);
        loop {
            let at = self.at;
            match self.journey().next(at) {
                step @ (Step::Ask | Step::AskAgain) => {
                    let asked = if step == Step::Ask { self.ask(at) } else { self.ask_again(call.take(), at) };
                    call = asked.ok()?;
                    // The few probes of a half-open breaker are for requests that have had no attempt.
                    if call.as_ref().is_some_and(Call::is_probe) {
                        return None;
                    }
                }
                Step::Check => {
                    let admitted = admit(context.decision_context(at), resolved, Side::Upstream).await.ok()?;
                    if context.worker.gateway.store().is_some() {
                        self.has_waited(context);
                    }
                    self.journey().admitted(admitted.wait());
                    admission = Some(Box::new(admitted));
                }
                Step::Enter(_) => slot = Some(interaction.bulkhead.as_ref()?.enter_if_free()?),
                Step::Attempt { within } => return Some(Passed { within, call, slot, admission }),
                Step::Delay(_) | Step::Pause(_) | Step::TimedOut => return None,
            }
        }
    }
}

/// The attempt that decides the response, and what became of the other one.
struct Decided {
    ended: Ended,
    is_second: bool,
    /// Whether it has succeeded.
    is_good: bool,
    /// Whether the other one has failed, rather than being given up.
    has_failed: bool,
    /// The number and the trouble of the other one, if it ended without a response.
    other: Option<(u32, Trouble)>,
}
