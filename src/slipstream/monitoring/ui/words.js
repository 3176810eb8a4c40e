// What a configuration means, in sentences.

import { bytes, count, duration, plural } from "./format.js";

const RETENTION = {
  limits: "Messages stay until a limit is reached",
  interest: "Messages stay until every consumer that wants them has acknowledged them",
  workqueue: "A work queue: a message goes when a consumer acknowledges it",
};

/** A stream, as sentences. */
export function streamWords(config) {
  const said = [];
  if (config.mirror) said.push(`A copy of stream ${config.mirror.name}.`);
  else if (config.sources?.length) said.push(`Collects from ${config.sources.map((source) => source.name).join(", ")}.`);
  if (config.subjects?.length) said.push(`Stores what is published to ${config.subjects.join(", ")}.`);
  const where = config.storage === "memory" ? "in memory: they go with the server" : "on disk";
  said.push(`${RETENTION[config.retention] || config.retention}; they are kept ${where}.`);
  const limits = [];
  if (config.max_msgs > 0) limits.push(plural(config.max_msgs, "message"));
  if (config.max_bytes > 0) limits.push(bytes(config.max_bytes));
  if (config.max_age > 0) limits.push(`an age of ${duration(config.max_age)}`);
  if (config.max_msgs_per_subject > 0) limits.push(`${plural(config.max_msgs_per_subject, "message")} a subject`);
  if (limits.length) {
    const full = config.discard === "new" ? "what comes then is refused" : "the oldest go first";
    said.push(`At most ${limits.join(", ")}; ${full}.`);
  } else {
    said.push("No limit but the disk and the account's.");
  }
  if (config.max_msg_size > 0) said.push(`A message has at most ${bytes(config.max_msg_size)}.`);
  if (config.duplicate_window > 0) said.push(`The same Nats-Msg-Id within ${duration(config.duplicate_window)} is stored once.`);
  if (config.allow_msg_ttl) said.push("Messages may have a time to live of their own.");
  if (config.allow_rollup_hdrs) said.push("A message may replace all before it (roll-up).");
  if (config.allow_atomic) said.push("Batches may be published that are stored whole or not at all.");
  if (config.allow_msg_schedules) said.push("Messages may be published later, on a schedule.");
  if (config.allow_msg_counter) said.push("Each subject is a counter.");
  if (config.compression && config.compression !== "none") said.push(`Compressed with ${config.compression}.`);
  if (config.republish) said.push(`What is stored is published again to ${config.republish.dest}.`);
  if (config.subject_transform) said.push(`Subjects ${config.subject_transform.src || ">"} become ${config.subject_transform.dest}.`);
  const locks = [];
  if (config.sealed) locks.push("sealed: nothing can be added or removed");
  if (config.deny_delete) locks.push("single messages cannot be deleted");
  if (config.deny_purge) locks.push("it cannot be purged");
  if (locks.length) said.push(`Locked: ${locks.join(", ")}.`);
  if (config.num_replicas > 1) said.push(`${count(config.num_replicas)} copies in the cluster.`);
  const dead = config.metadata?.["slipstream.dlq"];
  if (dead) said.push(`What its consumers give up goes to ${dead}.`);
  return said;
}

const DELIVER = {
  all: "from the first message on",
  last: "from the last message on",
  new: "only what came after it was made",
  last_per_subject: "from the last message of each subject on",
};

/** A consumer, as sentences. */
export function consumerWords(config) {
  const said = [];
  const filters = config.filter_subjects?.length ? config.filter_subjects : config.filter_subject ? [config.filter_subject] : [];
  const what = filters.length ? filters.join(", ") : "everything";
  const start = DELIVER[config.deliver_policy] ||
    (config.opt_start_seq ? `from sequence ${count(config.opt_start_seq)} on` : `from ${config.opt_start_time} on`);
  said.push(`Gets ${what}, ${start}.`);
  if (config.deliver_subject) {
    said.push(`Pushed to ${config.deliver_subject}${config.deliver_group ? `, to one of the group ${config.deliver_group}` : ""}.`);
  } else {
    said.push("Clients pull from it.");
  }
  if (config.ack_policy === "none") {
    said.push("Nothing is acknowledged: what was sent counts as done.");
  } else {
    const waits = config.backoff?.length ? config.backoff.map((each) => duration(each)).join(", ") : duration(config.ack_wait);
    said.push(`${config.ack_policy === "all" ? "An ack counts for all before it" : "Each message is acknowledged"}; what is not comes again after ${waits}.`);
    if (config.max_deliver > 0) said.push(`Given up after ${plural(config.max_deliver, "delivery", "deliveries")}.`);
    if (config.max_ack_pending > 0) said.push(`At most ${count(config.max_ack_pending)} are in flight.`);
  }
  if (config.headers_only) said.push("Only headers are sent.");
  if (config.rate_limit_bps) said.push(`Not faster than ${bytes(config.rate_limit_bps / 8)} a second.`);
  if (config.inactive_threshold) said.push(`It goes when nobody used it for ${duration(config.inactive_threshold)}.`);
  const dead = config.metadata?.["slipstream.dlq"];
  if (dead) said.push(`What it gives up goes to ${dead}.`);
  return said;
}

/** Why a consumer delivers nothing now: a list of [severity, sentence], the reason first. */
export function whyNothing(info, streamState, now = Date.now()) {
  const { config } = info;
  const said = [];
  if (info.paused || (config.pause_until && Date.parse(config.pause_until) > now)) {
    said.push(["warn", `It is paused until ${config.pause_until || "somebody resumes it"}.`]);
  }
  if (info.num_pending === 0 && info.num_ack_pending === 0) {
    said.push(["ok", streamState && streamState.messages === 0 ? "The stream is empty." : "It has delivered everything that it gets."]);
  } else if (info.num_pending === 0) {
    said.push(["ok", `Nothing new: ${plural(info.num_ack_pending, "message")} wait for their acknowledgement.`]);
  }
  if (config.max_ack_pending > 0 && info.num_ack_pending >= config.max_ack_pending) {
    said.push(["bad", `${count(info.num_ack_pending)} are in flight, which is the most (max_ack_pending): clients have to acknowledge, or do not.`]);
  }
  if (config.deliver_subject && !info.push_bound) {
    said.push(["bad", `Nobody subscribes to ${config.deliver_subject}.`]);
  }
  if (!config.deliver_subject && info.num_waiting === 0 && info.num_pending > 0) {
    said.push(["bad", "No client is pulling."]);
  }
  if (info.num_redelivered > 0) {
    said.push(["warn", `${plural(info.num_redelivered, "message")} had to be delivered again: a client fails, or is slower than ${duration(config.ack_wait)}.`]);
  }
  if (!said.length) said.push(["ok", "Nothing is in its way."]);
  return said;
}
