//! A second attempt beside a first one that has had no response for long. The client gets what comes first.

use std::pin::pin;
use std::time::Duration;

use tidegate_http::client::Response as UpstreamResponse;
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
use crate::stages::Side;

/// When a request gets a second attempt, and what it takes to send it then.
pub(crate) struct Hedge<'a> {
    after: Duration,
    /// None: it has no body.
    replayable: Option<&'a Replayable>,
}

/// What a second attempt holds that has passed its policies.
struct Passed {
    within: Option<Duration>,
    call: Option<Call>,
    slot: Option<Slot>,
    admission: Option<Box<Admission>>,
}

impl Passage<'_> {
    /// When the request gets a second attempt. None: it gets none.
    #[inline]
    pub(crate) fn hedge<'r>(
        &self,
        context: &RequestContext<'_>,
        outgoing: &Outgoing<'_>,
        replayable: Option<&'r Replayable>,
    ) -> Option<Hedge<'r>> {
        let interaction = self.interaction?;
        let (delay, retry) = (interaction.hedge.as_ref()?, interaction.retry.as_ref()?);
        let framing = &outgoing.framing;
        // What is said on an upgraded connection is no exchange that could be made twice.
        let may = framing.upgrade.is_none()
            && (framing.is_whole || !framing.has_body)
            && may_come_twice(context, outgoing, retry);
        let after = if may { delay.delay(self.at) } else { None };
        after.map(|after| Hedge { after, replayable })
    }

    /// Makes the first attempt, and a second one beside it if the first has had no response for long. Afterwards
    /// `chosen` is what the attempt holds that is returned: the one that succeeded, or the last to fail.
    pub(crate) async fn attempt_hedged(
        &mut self,
        context: &mut RequestContext<'_>,
        outgoing: &Outgoing<'_>,
        chosen: &mut Chosen,
        permitted: Permitted,
        body: Option<RequestBody>,
        hedge: Hedge<'_>,
    ) -> Ended {
        let (interaction, started, first_index) = (self.interaction, permitted.started, chosen.hold.in_flight.index());
        let (ended, won) = {
            let context = &*context;
            let mut first = pin!(attempt(context, outgoing, chosen, permitted, body));
            let prepared = select! {
                biased;
                ended = &mut first => Err(ended),
                prepared = async {
                    sleep(hedge.after).await;
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
            if let Some(interaction) = interaction {
                interaction.stats.hedges.inc();
            }
            let second_index = second_chosen.hold.in_flight.index();
            let body = hedge.replayable.map(Replayable::body);
            let (ended, second_ended_last) = {
                let mut second = pin!(attempt(context, outgoing, &mut second_chosen, permitted, body));
                let is_good = |ended: &Ended| matches!(ended, Ok(response) if !self.repeats(response));
                let (ended, is_second) = select! {
                    biased;
                    ended = &mut first => (ended, false),
                    ended = &mut second => (ended, true),
                };
                match (is_good(&ended), is_second) {
                    (true, _) => (ended, is_second),
                    (false, false) => last(ended, second.await, true),
                    (false, true) => last(ended, first.await, false),
                }
            };
            let is_failure = !matches!(&ended, Ok(response) if !self.repeats(response));
            self.also_tried = is_failure.then_some(if second_ended_last { first_index } else { second_index });
            (ended, second_ended_last.then_some((second_chosen, is_failure)))
        };
        if let Some((mut second, is_failure)) = won {
            context.settlement.admissions.replace_upstream(second.own_admission.take());
            *chosen = second;
            if let (Some(interaction), false) = (interaction, is_failure) {
                interaction.stats.hedges_won.inc();
                // The first would have taken longer. Without it, what is slow would be left out.
                interaction.note_latency(None, started.elapsed(), context.worker.gateway.now());
            }
        }
        ended
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
        if interaction.breaker.as_ref().is_some_and(|breaker| breaker.rejects(at)) {
            return None;
        }
        let mut tried = Tried::new();
        tried.insert(first);
        let mut chosen = choose(context, outgoing, &Preferred::Available(&tried), at, None).ok()?;
        let take_budget = || interaction.budget.as_ref().is_none_or(|budget| budget.take(at));
        self.journey().hedge(at, take_budget).ok()?;
        let Some(Passed { within, call, slot, admission }) = self.pass_without_waiting(context).await else {
            self.journey().go_without_hedge();
            return None;
        };
        if let Some(slot) = slot {
            chosen.hold.enter(slot);
        }
        chosen.own_admission = admission;
        self.note_time(context);
        Some((chosen, self.permitted(within, call, None)))
    }

    /// Passes the policies if that takes no time but that of asking Redis.
    async fn pass_without_waiting(&mut self, context: &RequestContext<'_>) -> Option<Passed> {
        let (interaction, at, resolved) = (self.interaction?, self.at, self.resolved);
        let (mut call, mut slot, mut admission) = (None, None, None);
        loop {
            match self.journey().next(at) {
                // The few probes of a half-open breaker are for requests that have had no attempt.
                Step::Ask | Step::AskAgain => match self.ask(at).ok()? {
                    Some(probe) if probe.is_probe() => return None,
                    asked => call = asked,
                },
                Step::Check => {
                    let admitted = admit(context.decision_context(at), resolved, Side::Upstream).await.ok()?;
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

/// Of two attempts the one that the client hears of if there is no third: a response is better than none. The second
/// value says whether that is the second attempt, if `is_second` says so of the later one.
fn last(earlier: Ended, later: Ended, is_second: bool) -> (Ended, bool) {
    match (earlier, later) {
        (Ok(response), Err(_)) => (Ok::<UpstreamResponse<_>, _>(response), !is_second),
        (_, later) => (later, is_second),
    }
}
