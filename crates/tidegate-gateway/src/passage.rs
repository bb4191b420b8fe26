//! A request's way from its admission to its response: through the policies around its attempts, to endpoints, and
//! again if that is worth it. The order of the steps is that of a [`Journey`]; here they are taken.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use tidegate_http::client::{Failed, Response as UpstreamResponse, ResponseContent, Trouble};
use tidegate_input::retry_after;
use tidegate_policy::Timestamp;
use tidegate_policy::breaker::Call;
use tidegate_policy::endpoints::{MOST_ATTEMPTED, Tried};
use tidegate_policy::journey::{FailedAttempt, Journey, NoRetry, Step, Terms};
use tidegate_wait::{Begun, Slot};

use crate::admission::admit;
use crate::attempt::{
    ATTEMPTS_HEADER, Ended, Outgoing, Permitted, Preferred, attempt, choose, give_up, has_untried, note_trouble,
    succeed,
};
use crate::attempt_hold::AttemptHold;
use crate::barred::Barred;
use crate::buffers::Lease;
use crate::interaction::Interaction;
use crate::rejection;
use crate::request_body::{Replayable, RequestBody};
use crate::request_context::RequestContext;
use crate::resolve::Resolved;
use crate::response::Response;
use crate::settings::RetrySettings;
use crate::stages::Side;
use crate::upstream::{has_no_connection, retry_cause};
use crate::validation;

/// A request on its way.
pub(crate) struct Passage<'a> {
    /// None as long as there is nothing to pass: no policy, no limits of the upstream, one attempt. Boxed, so that a
    /// request without one is not larger for it.
    journey: Option<Box<Journey>>,
    pub(crate) resolved: &'a Resolved<'a>,
    pub(crate) interaction: Option<&'a Interaction>,
    /// The time after the last step that took any.
    now: Instant,
    /// The same by the gateway's clock.
    pub(crate) at: Timestamp,
    /// The endpoint of an attempt that failed beside the one whose failure is known.
    pub(crate) also_tried: Option<usize>,
}

/// What the first attempt of a request has, and what it takes to send it again.
pub(crate) struct First {
    pub(crate) permitted: Permitted,
    /// Of the bulkhead.
    pub(crate) slot: Option<Slot>,
    pub(crate) replayable: Option<Box<Replayable>>,
}

/// What a request holds that has passed its policies.
pub(crate) struct Passed {
    within: Option<Duration>,
    call: Option<Call>,
    slot: Option<Slot>,
}

impl<'a> Passage<'a> {
    /// A request that its client's limits have admitted, and whose body is at hand or flows.
    #[inline]
    pub(crate) fn new(context: &RequestContext<'_>, resolved: &'a Resolved<'a>, began: Instant) -> Self {
        let (interaction, has_limits) = (resolved.interaction(), resolved.has_upstream_limits());
        let has_waited = began != context.settlement.started;
        let at = if has_waited { context.worker.gateway.clock.at(began) } else { context.now };
        if !has_limits && interaction.is_none() {
            return Self { journey: None, resolved, interaction, now: began, at, also_tried: None };
        }
        let terms = interaction.map(|interaction| interaction.terms);
        let journey = Some(Box::new(Journey::new(Terms { has_limits, ..terms.unwrap_or_default() }, at)));
        Self { journey, resolved, interaction, now: began, at, also_tried: None }
    }

    /// Passes the policies before the first attempt.
    #[inline]
    pub(crate) async fn begin(&mut self, context: &mut RequestContext<'_>) -> Result<Passed, Barred> {
        if self.journey.is_none() {
            return Ok(Passed { within: None, call: None, slot: None });
        }
        self.pass(context, None).await
    }

    /// Passes the policies before an attempt. `slot` is what an attempt that could not be sent has of the bulkhead.
    async fn pass(&mut self, context: &mut RequestContext<'_>, mut slot: Option<Slot>) -> Result<Passed, Barred> {
        let mut call = None;
        loop {
            let now = self.at;
            match self.journey().next(now) {
                Step::Attempt { within } => return Ok(Passed { within, call, slot }),
                Step::Ask => call = self.ask(now)?,
                Step::Check => {
                    let now = context.worker.gateway.now();
                    let admission = admit(context.decision_context(now), self.resolved, Side::Upstream);
                    let admission = admission.await.map_err(Barred::Limits)?;
                    if context.worker.gateway.store().is_some() {
                        self.has_waited(context);
                    }
                    self.journey().admitted(admission.wait());
                    context.settlement.admissions.add(Side::Upstream, admission);
                }
                Step::Enter(wait) => slot = self.enter(context, wait).await?,
                Step::AskAgain => call = self.ask_again(call.take(), now)?,
                // Boxed, because they are rare: otherwise the future of every request would be larger.
                Step::Delay(span) | Step::Pause(span) => {
                    Box::pin(tokio::time::sleep(span)).await;
                    self.note_time(context);
                }
                Step::TimedOut => return Err(Barred::TimedOut),
            }
        }
    }

    /// The journey. One that had nothing to pass begins here, after its first attempt.
    #[inline]
    pub(crate) fn journey(&mut self) -> &mut Journey {
        let at = self.at;
        self.journey.get_or_insert_with(|| {
            let mut journey = Journey::new(Terms::default(), at);
            let _attempt = journey.next(at);
            Box::new(journey)
        })
    }

    /// How many attempts have begun.
    fn attempts(&self) -> u32 {
        self.journey.as_ref().map_or(1, |journey| journey.attempts())
    }

    pub(crate) fn has_waited(&mut self, context: &RequestContext<'_>) {
        self.note_time(context);
        self.journey().waited();
    }

    pub(crate) fn note_time(&mut self, context: &RequestContext<'_>) {
        self.now = Instant::now();
        self.at = context.worker.gateway.clock.at(self.now);
    }

    /// Asks the breaker.
    pub(crate) fn ask(&self, now: Timestamp) -> Result<Option<Call>, Barred> {
        let breaker = self.interaction.and_then(|interaction| interaction.breaker.as_ref());
        breaker.map(|breaker| breaker.ask(now).map_err(Barred::Breaker)).transpose()
    }

    /// Asks the breaker whether it still permits a call, or another one.
    pub(crate) fn ask_again(&self, call: Option<Call>, now: Timestamp) -> Result<Option<Call>, Barred> {
        let breaker = self.interaction.and_then(|interaction| interaction.breaker.as_ref());
        let is_permitted = |call: &Call| breaker.is_some_and(|breaker| breaker.still_permits(call));
        match call.filter(is_permitted) {
            Some(call) => Ok(Some(call)),
            None => self.ask(now),
        }
    }

    /// Takes a slot of the bulkhead.
    async fn enter(&mut self, context: &RequestContext<'_>, wait: Duration) -> Result<Option<Slot>, Barred> {
        let Some(bulkhead) = self.interaction.and_then(|interaction| interaction.bulkhead.as_ref()) else {
            return Ok(None);
        };
        let begun = match bulkhead.begin(wait) {
            Ok(Begun::Entered(slot)) => return Ok(Some(slot)),
            Ok(Begun::Waits(waiting)) => Ok(waiting),
            Err(full) => Err(Barred::Bulkhead(full)),
        };
        // Clients that keep the upstream waiting must not keep its slots.
        context.worker.evict_stalled_of_upstream(self.resolved.upstream(), self.now);
        let waiting = begun?;
        // Boxed, because it is rare.
        let entered = Box::pin(waiting.wait()).await;
        self.has_waited(context);
        if let (Err(_), Some(interaction)) = (&entered, self.interaction) {
            interaction.stats.waited_in_vain.inc();
        }
        entered.map(Some).map_err(Barred::Bulkhead)
    }

    /// What the first attempt has and needs. Of its body a copy is kept, if it may have to be sent again.
    #[inline]
    pub(crate) fn first(
        &self,
        context: &RequestContext<'_>,
        outgoing: &mut Outgoing<'_>,
        passed: Passed,
        body: &mut Option<RequestBody>,
    ) -> First {
        let (mut replayable, mut upload) = (None, None);
        if let Some(interaction) = self.interaction {
            (replayable, upload) = replay_of(body, context, outgoing, interaction);
            outgoing.framing.is_whole = replayable.is_some();
            if let Some(budget) = &interaction.budget {
                budget.call_began(self.at);
            }
        }
        First { permitted: self.permitted(passed.within, passed.call, upload), slot: passed.slot, replayable }
    }

    #[inline]
    pub(crate) fn permitted(
        &self,
        within: Option<Duration>,
        call: Option<Call>,
        upload: Option<Arc<AtomicBool>>,
    ) -> Permitted {
        let is_short = within.is_some_and(|within| self.journey.as_ref().is_some_and(|it| it.is_short(within)));
        let Self { now: started, at, .. } = *self;
        Permitted { number: self.attempts(), started, at, within, is_short, upload, call }
    }

    /// Whether a response is one that retries repeat.
    #[inline]
    pub(crate) fn repeats(&self, response: &UpstreamResponse<RequestBody>) -> bool {
        let retry = self.interaction.and_then(|interaction| interaction.retry.as_ref());
        retry.is_some_and(|retry| retry.on.has_status(response.status.as_u16()))
    }

    /// Goes on after an attempt that is worth another one, or that failed.
    pub(crate) async fn go_on(
        &mut self,
        context: &mut RequestContext<'_>,
        outgoing: &Outgoing<'_>,
        mut ended: Ended,
        replayable: Option<Box<Replayable>>,
    ) -> Response {
        let mut others = Others { tried: Tried::new(), attempted: 1, began: self.now };
        if let Some(index) = self.also_tried.take() {
            others.tried.insert(index);
            others.attempted += 1;
        }
        loop {
            self.note_time(context);
            if let Some(hold) = &context.settlement.hold {
                others.tried.insert(hold.in_flight.index());
            }
            let (mut slot, goes_elsewhere) = (None, self.goes_elsewhere(context, outgoing, &ended, &mut others));
            if goes_elsewhere {
                slot = context.settlement.hold.take().and_then(AttemptHold::into_slot);
            } else {
                if ended.as_ref().is_err_and(|failed| failed.trouble.is_rejection()) {
                    context.settlement.admissions.attempt_rejected();
                }
                if let Err(why) = self.plan_another(context, outgoing, &ended) {
                    self.note_end(why);
                    return match ended {
                        Ok(response) => self.respond_with(context, response),
                        Err(failed) => self.fail(context, outgoing, &failed.trouble),
                    };
                }
                // Nothing is held of the upstream in the pause.
                context.settlement.hold = None;
                drop(context.settlement.admissions.take_upstream());
            }
            let (last, body) = Last::of(ended);
            let passed = match self.pass(context, slot).await {
                Ok(passed) => passed,
                Err(barred) => {
                    self.note_rejected(goes_elsewhere);
                    return self.end(context, outgoing, last, &barred);
                }
            };
            let preferred = if goes_elsewhere {
                Preferred::Untried(&others.tried)
            } else {
                (others.attempted, others.began) = (1, self.now);
                self.interaction.inspect(|interaction| interaction.stats.retries.inc());
                Preferred::Available(&others.tried)
            };
            let (body, upload) = match (&replayable, body) {
                (Some(replayable), _) => (Some(replayable.body()), None),
                // A body that flows, and what shows whether it has been sent.
                (None, body) => body.map(RequestBody::watched).unzip(),
            };
            let permitted = self.permitted(passed.within, passed.call, upload);
            ended = match choose(context, outgoing, &preferred, self.at, passed.slot) {
                Ok(mut chosen) => {
                    let ended = attempt(context, outgoing, &mut chosen, permitted, body).await;
                    context.settlement.hold = Some(chosen.hold);
                    ended
                }
                Err(trouble) => Err(not_begun(trouble, body)),
            };
            match ended {
                Ok(response) if !self.repeats(&response) => return self.respond_with(context, response),
                other => ended = other,
            }
        }
    }

    /// Whether a request that could not be sent to one endpoint goes to another at once: that does no harm, there is
    /// another, and there is time.
    fn goes_elsewhere(
        &mut self,
        context: &RequestContext<'_>,
        outgoing: &Outgoing<'_>,
        ended: &Ended,
        others: &mut Others,
    ) -> bool {
        let Err(failed) = ended else { return false };
        let took = self.now.duration_since(others.began);
        let may = matches!(failed.trouble, Trouble::Connect(_) | Trouble::ConnectTimeout | Trouble::Full)
            && failed.is_repeatable
            && others.attempted < MOST_ATTEMPTED
            && took < 2 * outgoing.upstream.connect_timeout
            && has_untried(context, outgoing, &others.tried, self.at);
        if may {
            self.journey().elsewhere();
            outgoing.upstream.went_elsewhere(&failed.trouble);
            others.attempted += 1;
        }
        may
    }

    /// Plans another attempt, with a pause before it, or says why there is none.
    fn plan_another(
        &mut self,
        context: &RequestContext<'_>,
        outgoing: &Outgoing<'_>,
        ended: &Ended,
    ) -> Result<(), NoRetry> {
        let interaction = self.interaction.ok_or(NoRetry::NotRetryable)?;
        let retry = interaction.retry.as_ref().ok_or(NoRetry::NotRetryable)?;
        let is_replayable = outgoing.framing.is_whole;
        let (is_retryable, retry_after, is_unsent) = match ended {
            Ok(response) => {
                let asked = response.headers.get("retry-after");
                let asked = asked.and_then(|value| retry_after(value, SystemTime::now()));
                (retry.on.has_status(response.status.as_u16()), asked, false)
            }
            Err(failed) => {
                let cause = retry_cause(&failed.trouble, is_replayable);
                (cause.is_some_and(|cause| retry.on.has(cause)), None, failed.is_repeatable)
            }
        };
        let is_safe = is_unsent || may_come_twice(context, outgoing, retry);
        // Of a body that flows nothing was read if there was not even a connection.
        let is_untouched = ended.as_ref().is_err_and(|failed| is_unsent && has_no_connection(&failed.trouble));
        let is_whole = is_untouched || is_replayable || !outgoing.framing.has_body;
        let failed = FailedAttempt { is_retryable, is_repeatable: is_safe && is_whole, retry_after };
        let (now, random) = (self.at, context.worker.ids.random());
        let is_rejected = is_retryable && interaction.breaker.as_ref().is_some_and(|breaker| breaker.rejects(now));
        if is_rejected {
            return Err(NoRetry::BreakerOpen);
        }
        let take_budget = || interaction.budget.as_ref().is_none_or(|budget| budget.take(now));
        self.journey().failed(failed, now, random, take_budget)?;
        if let Err(failed) = ended {
            outgoing.upstream.repeated(self.attempts(), &failed.trouble);
        }
        Ok(())
    }

    /// Counts an attempt that was rejected after its pause.
    fn note_rejected(&self, goes_elsewhere: bool) {
        if let (false, Some(interaction)) = (goes_elsewhere, self.interaction) {
            interaction.stats.rejected_retries.inc();
        }
    }

    fn note_end(&self, why: NoRetry) {
        if let Some(interaction) = self.interaction {
            interaction.stats.not_repeated(why);
        }
    }

    /// The response to a request whose next attempt is not permitted: what the last one has brought, if it is still
    /// there.
    fn end(&self, context: &mut RequestContext<'_>, outgoing: &Outgoing<'_>, last: Last, barred: &Barred) -> Response {
        match last {
            Last::Response(response) => self.respond_with(context, response),
            Last::Trouble(trouble) => self.fail(context, outgoing, &trouble),
            Last::Gone => {
                context.settlement.source = Some(barred.source());
                let mut response =
                    rejection::barred(context.plan, barred, &outgoing.upstream.name, context.since_1970(), &context.id);
                self.report_attempts(&mut response);
                response
            }
        }
    }

    /// The response to a request whose attempt has succeeded, or is not repeated.
    #[inline]
    pub(crate) fn respond_with(
        &self,
        context: &mut RequestContext<'_>,
        response: UpstreamResponse<RequestBody>,
    ) -> Response {
        let reports = self.reports_attempts();
        let mut response = succeed(context, response, reports);
        self.report_attempts(&mut response);
        response
    }

    fn fail(&self, context: &mut RequestContext<'_>, outgoing: &Outgoing<'_>, trouble: &Trouble) -> Response {
        note_trouble(context, outgoing.upstream, trouble);
        let mut response = give_up(context, outgoing.upstream, trouble);
        self.report_attempts(&mut response);
        response
    }

    /// Whether the response says how many attempts it has taken.
    fn reports_attempts(&self) -> bool {
        self.attempts() > 1 || self.interaction.is_some_and(|interaction| interaction.retry.is_some())
    }

    fn report_attempts(&self, response: &mut Response) {
        if self.reports_attempts() {
            response.lines.add_number(ATTEMPTS_HEADER, self.attempts().into());
        }
    }
}

/// Endpoints that a request is sent to instead of one that can't be reached.
struct Others {
    tried: Tried,
    /// How many of them one after the other.
    attempted: usize,
    /// When the first of them was attempted.
    began: Instant,
}

/// What an attempt has left, for the case that no other follows.
enum Last {
    /// Its response. Only a small one is kept: another would hold its connection.
    Response(UpstreamResponse<RequestBody>),
    Trouble(Trouble),
    Gone,
}

impl Last {
    /// The second value is the request's body, if it is still there.
    fn of(ended: Ended) -> (Self, Option<RequestBody>) {
        match ended {
            Ok(response) if matches!(response.content, ResponseContent::Whole(_)) => (Self::Response(response), None),
            Ok(_) => (Self::Gone, None),
            Err(failed) => (Self::Trouble(failed.trouble), failed.body),
        }
    }
}

/// An attempt that was not even begun.
pub(crate) fn not_begun(trouble: Trouble, body: Option<RequestBody>) -> Failed<RequestBody> {
    Failed { trouble, was_sent: false, is_repeatable: true, body }
}

/// Whether it does no harm if the upstream gets the request twice.
pub(crate) fn may_come_twice(context: &RequestContext<'_>, outgoing: &Outgoing<'_>, retry: &RetrySettings) -> bool {
    outgoing.request.method.is_idempotent() || has_key(context, outgoing, retry)
}

/// Whether the upstream gets an idempotency key with the request. One that the client names in `Connection`, or that
/// only a trusted proxy may send, is not passed on.
fn has_key(context: &RequestContext<'_>, outgoing: &Outgoing<'_>, retry: &RetrySettings) -> bool {
    let Some(name) = &retry.idempotency_key else { return false };
    let headers = &outgoing.request.headers;
    let is_dropped = validation::is_nominated(headers, name.as_str())
        || !outgoing.from_trusted && context.plan.site.guarded.contains(name);
    headers.get(name.as_str()).is_some_and(|key| !key.is_empty()) && !is_dropped
}

/// What it takes to send a body again, if it is whole; otherwise what shows whether it has been sent. Neither if
/// nothing may depend on it.
fn replay_of(
    body: &mut Option<RequestBody>,
    context: &RequestContext<'_>,
    outgoing: &Outgoing<'_>,
    interaction: &Interaction,
) -> (Option<Box<Replayable>>, Option<Arc<AtomicBool>>) {
    let Terms { retry, timeout, attempt_timeout, .. } = &interaction.terms;
    if body.is_none() || retry.is_none() && timeout.is_none() && attempt_timeout.is_none() {
        return (None, None);
    }
    let most = outgoing.upstream.request_buffer_bytes;
    let buffers = &context.worker.gateway.metrics.buffers;
    let lease = || Lease::new(buffers, most, context.plan.site.connections.max_buffer_bytes);
    let flowing = match body.take() {
        Some(body) if most == 0 => Err(body),
        Some(body) => Replayable::of(body, lease),
        None => return (None, None),
    };
    match flowing {
        Ok(replayable) => {
            *body = Some(replayable.body());
            (Some(Box::new(replayable)), None)
        }
        Err(flowing) => {
            let (flowing, ended) = flowing.watched();
            *body = Some(flowing);
            (None, Some(ended))
        }
    }
}
