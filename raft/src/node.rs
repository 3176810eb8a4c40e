//! One member of one group: the calls of `raft::RawNode`, one border crossing each.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Mutex;

use prost::Message as _;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use raft::eraftpb::{
    ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, Entry,
    EntryType, Message, MessageType,
};
use raft::{Config, SnapshotStatus, StateRole};
use slog::{o, Discard, Logger};

use crate::convert::{self, ConfStateTuple, HardStateTuple, PyReady, PyStatus};
use crate::log::{Log, Opening};
use crate::{panic_text, GroupStopped, ProposalDropped, RaftError};

struct Member {
    node: raft::RawNode<Log>,
    window_bytes: usize,
    election_timeout: Option<usize>, // instead of Raft's own dice
    readies: Vec<(u64, u64, u64)>, // number, last index and its term of each `Ready` that is not persisted yet
}

/// A member of a Raft group, without I/O.
#[pyclass(module = "slipstream_raft")]
pub struct RawNode {
    // Never locked: `&mut self` is the only way in. It says that another thread may use the object, one at a time.
    member: Mutex<Option<Member>>,
    why_stopped: String,
}

fn refused(error: raft::Error) -> PyErr {
    match error {
        raft::Error::ProposalDropped => ProposalDropped::new_err(error.to_string()),
        _ => RaftError::new_err(error.to_string()),
    }
}

impl RawNode {
    /// Do one thing with Raft. A panic, or a log that could not be read, ends this group and nothing else.
    fn enter<T>(&mut self, work: impl FnOnce(&mut Member) -> PyResult<T>) -> PyResult<T> {
        let slot = self
            .member
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(member) = slot.as_mut() else {
            return Err(GroupStopped::new_err(self.why_stopped.clone()));
        };
        let done = catch_unwind(AssertUnwindSafe(|| {
            let done = work(member);
            if let Some(ticks) = member.election_timeout {
                member.node.raft.set_randomized_election_timeout(ticks);
            }
            done
        }));
        let cause = match &done {
            Ok(_) => member.node.store().take_failure(),
            Err(_) => Python::attach(|py| {
                let panic = GroupStopped::new_err(panic_text());
                if let Some(failure) = member.node.store().take_failure() {
                    panic.set_cause(py, Some(failure));
                }
                Some(panic)
            }),
        };
        match (cause, done) {
            (None, Ok(answer)) => answer,
            (Some(cause), done) => {
                *slot = None;
                self.why_stopped = format!("the group was stopped: {cause}");
                if done.is_err() {
                    return Err(cause);
                }
                let error = GroupStopped::new_err(format!("the log could not be read: {cause}"));
                Python::attach(|py| error.set_cause(py, Some(cause)));
                Err(error)
            }
            (None, Err(_)) => unreachable!("a panic has a cause"),
        }
    }

    fn propose_entries(&mut self, entries: Vec<Entry>) -> PyResult<u64> {
        self.enter(|member| {
            if member.node.raft.state != StateRole::Leader {
                // Raft would forward it; who proposes has to know the index.
                return Err(ProposalDropped::new_err("this node does not lead"));
            }
            let first = member.node.raft.raft_log.last_index() + 1;
            let mut message = Message {
                from: member.node.raft.id,
                ..Default::default()
            };
            message.set_msg_type(MessageType::MsgPropose);
            message.set_entries(entries.into());
            member.node.raft.step(message).map_err(refused)?;
            Ok(first)
        })
    }
}

#[pymethods]
impl RawNode {
    #[new]
    #[pyo3(signature = (
        id, reader, *, hard_state, conf_state, first_index, last_index, terms, applied, election_tick, heartbeat_tick,
        max_size_per_msg, max_inflight_msgs, max_uncommitted_size, max_committed_size_per_ready, window_bytes,
        check_quorum = true, pre_vote = true, skip_bcast_commit = false, priority = 0
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        id: u64,
        reader: Py<PyAny>,
        hard_state: HardStateTuple,
        conf_state: ConfStateTuple,
        first_index: u64,
        last_index: u64,
        terms: Vec<(u64, u64)>,
        applied: u64,
        election_tick: usize,
        heartbeat_tick: usize,
        max_size_per_msg: u64,
        max_inflight_msgs: usize,
        max_uncommitted_size: u64,
        max_committed_size_per_ready: u64,
        window_bytes: usize,
        check_quorum: bool,
        pre_vote: bool,
        skip_bcast_commit: bool,
        priority: i64,
    ) -> PyResult<Self> {
        let sound = first_index > 0
            && last_index + 1 >= first_index
            && !terms.is_empty()
            && terms[0].0 == first_index - 1
            && terms.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1)
            && terms[terms.len() - 1].0 <= last_index.max(first_index - 1);
        if !sound {
            return Err(RaftError::new_err(
                "the bounds and the terms of the log do not fit together",
            ));
        }
        if terms[terms.len() - 1].1 > hard_state.0 {
            return Err(RaftError::new_err(
                "the log has entries of a later term than the hard state",
            ));
        }
        if hard_state.2 > last_index || applied > hard_state.2 || applied + 1 < first_index {
            return Err(RaftError::new_err(
                "the log does not reach as far as it was committed or applied",
            ));
        }
        let config = Config {
            id,
            applied,
            election_tick,
            heartbeat_tick,
            max_size_per_msg,
            max_inflight_msgs,
            max_uncommitted_size,
            max_committed_size_per_ready,
            check_quorum,
            pre_vote,
            skip_bcast_commit,
            priority,
            ..Default::default()
        };
        config.validate().map_err(refused)?;
        let log = Log::new(
            Opening {
                hard_state: convert::hard_state_from(hard_state),
                conf_state: convert::conf_state_from(conf_state),
                first_index,
                last_index,
                terms,
            },
            reader,
        );
        let logger = Logger::root(Discard, o!());
        let node = catch_unwind(AssertUnwindSafe(|| {
            raft::RawNode::new(&config, log, &logger)
        }))
        .map_err(|_| GroupStopped::new_err(panic_text()))?
        .map_err(refused)?;
        Ok(RawNode {
            member: Mutex::new(Some(Member {
                node,
                window_bytes,
                election_timeout: None,
                readies: Vec::new(),
            })),
            why_stopped: String::new(),
        })
    }

    /// One tick of the clock; whether there may be something to do.
    fn tick(&mut self) -> PyResult<bool> {
        self.enter(|member| Ok(member.node.tick()))
    }

    /// A message of a peer.
    fn step(&mut self, message: &[u8]) -> PyResult<()> {
        self.enter(|member| {
            let message = convert::message_from(message, member.node.raft.id)?;
            if message.get_msg_type() == MessageType::MsgPropose {
                return Err(RaftError::new_err("proposals are made where the leader is"));
            }
            member.node.step(message).map_err(refused)
        })
    }

    /// Propose entries in one go; the index of the first. Only a leader can.
    fn propose(&mut self, entries: Vec<Bound<'_, PyBytes>>) -> PyResult<u64> {
        if entries.is_empty() {
            return Err(RaftError::new_err("nothing was proposed"));
        }
        let entries = entries
            .iter()
            .map(|data| Entry {
                data: data.as_bytes().to_vec(),
                ..Default::default()
            })
            .collect();
        self.propose_entries(entries)
    }

    /// Propose another membership, `(kind, node)` each: 0 voter, 1 gone, 2 learner; the index of the entry.
    /// Nothing in the list: leave a joint state.
    #[pyo3(signature = (changes, *, transition = 0, context = None))]
    fn propose_conf_change(
        &mut self,
        changes: Vec<(u8, u64)>,
        transition: u8,
        context: Option<&[u8]>,
    ) -> PyResult<u64> {
        let mut change = ConfChangeV2 {
            context: context.unwrap_or_default().to_vec(),
            ..Default::default()
        };
        change.set_transition(match transition {
            0 => ConfChangeTransition::Auto,
            1 => ConfChangeTransition::Implicit,
            2 => ConfChangeTransition::Explicit,
            _ => return Err(RaftError::new_err("unknown transition")),
        });
        for (kind, node_id) in changes {
            let mut single = ConfChangeSingle {
                node_id,
                ..Default::default()
            };
            single.set_change_type(match kind {
                0 => ConfChangeType::AddNode,
                1 => ConfChangeType::RemoveNode,
                2 => ConfChangeType::AddLearnerNode,
                _ => return Err(RaftError::new_err("unknown kind of change")),
            });
            change.mut_changes().push(single);
        }
        let data = change.encode_to_vec();
        let mut entry = Entry {
            data,
            ..Default::default()
        };
        entry.set_entry_type(EntryType::EntryConfChangeV2);
        self.propose_entries(vec![entry])
    }

    /// Apply a committed change of the membership; before `advance_apply_to` of its entry. The membership from now on.
    fn apply_conf_change(&mut self, kind: u8, data: &[u8]) -> PyResult<ConfStateTuple> {
        self.enter(|member| {
            let broken = |_| RaftError::new_err("these bytes are not a change of the membership");
            let state = match kind {
                1 => {
                    let change = ConfChange::decode(data).map_err(broken)?;
                    member.node.apply_conf_change(&change)
                }
                2 => {
                    let change = ConfChangeV2::decode(data).map_err(broken)?;
                    member.node.apply_conf_change(&change)
                }
                _ => {
                    return Err(RaftError::new_err(
                        "this entry is no change of the membership",
                    ))
                }
            }
            .map_err(refused)?;
            let tuple = convert::conf_state_tuple(&state);
            member.node.mut_store().set_conf_state(state);
            Ok(tuple)
        })
    }

    /// What is to be done now, None for nothing. The entries can be read back by Raft from here on; once they, the hard
    /// state and the snapshot are on disk, `on_persist_ready` has to be called with the number.
    fn ready(&mut self, py: Python<'_>) -> PyResult<Option<PyReady>> {
        self.enter(|member| {
            if !member.node.has_ready() {
                return Ok(None);
            }
            let mut rd = member.node.ready();
            let answer = convert::ready(py, &mut rd)?;
            let log = member.node.mut_store();
            if !rd.snapshot().is_empty() {
                log.restore(rd.snapshot());
            }
            log.append(rd.entries());
            let (index, term) = rd
                .entries()
                .last()
                .map_or((0, 0), |entry| (entry.index, entry.term));
            member.readies.push((rd.number(), index, term));
            member.node.advance_append_async(rd);
            Ok(Some(answer))
        })
    }

    /// The `Ready` of this number, and all before it, are on disk.
    fn on_persist_ready(&mut self, number: u64) -> PyResult<()> {
        self.enter(|member| {
            let done = member.readies.partition_point(|ready| ready.0 <= number);
            if done == 0 || member.readies[done - 1].0 != number {
                return Err(RaftError::new_err(format!(
                    "no ready with the number {number} is on its way"
                )));
            }
            let last = member.readies.drain(..done).rev().find(|ready| ready.1 > 0);
            if let Some((_, index, term)) = last {
                member.node.mut_store().persist_to(index, term);
            }
            member.node.on_persist_ready(number);
            let bytes = member.window_bytes;
            member.node.mut_store().shrink(bytes);
            Ok(())
        })
    }

    /// Everything committed up to here is applied.
    fn advance_apply_to(&mut self, index: u64) -> PyResult<()> {
        self.enter(|member| {
            let log = &member.node.raft.raft_log;
            if index < log.applied || index > log.committed.min(log.persisted) {
                return Err(RaftError::new_err(format!(
                    "{index} cannot be applied yet, or was left long ago"
                )));
            }
            member.node.advance_apply_to(index);
            Ok(())
        })
    }

    /// Ask for the index that a linearizable read has to wait for; it comes in `Ready.read_states` with the context.
    fn read_index(&mut self, context: &[u8]) -> PyResult<()> {
        self.enter(|member| {
            member.node.read_index(context.to_vec());
            Ok(())
        })
    }

    fn transfer_leader(&mut self, to: u64) -> PyResult<()> {
        self.enter(|member| {
            member.node.transfer_leader(to);
            Ok(())
        })
    }

    fn campaign(&mut self) -> PyResult<()> {
        self.enter(|member| member.node.campaign().map_err(refused))
    }

    fn report_unreachable(&mut self, id: u64) -> PyResult<()> {
        self.enter(|member| {
            member.node.report_unreachable(id);
            Ok(())
        })
    }

    fn report_snapshot(&mut self, id: u64, ok: bool) -> PyResult<()> {
        self.enter(|member| {
            let status = if ok {
                SnapshotStatus::Finish
            } else {
                SnapshotStatus::Failure
            };
            member.node.report_snapshot(id, status);
            Ok(())
        })
    }

    /// Entries up to this one are in a snapshot, and no longer in the log.
    fn compact(&mut self, index: u64) -> PyResult<()> {
        self.enter(|member| {
            if index > member.node.raft.raft_log.applied {
                return Err(RaftError::new_err(format!(
                    "cannot compact to {index}: it is not applied"
                )));
            }
            member
                .node
                .mut_store()
                .compact(index)
                .map_err(RaftError::new_err)
        })
    }

    /// Ticks without a leader until this node campaigns, from now until it is set again. Without it Raft rolls dice.
    fn set_randomized_election_timeout(&mut self, ticks: usize) -> PyResult<()> {
        self.enter(|member| {
            let least = member.node.raft.election_timeout();
            if ticks < least || ticks >= 2 * least {
                return Err(RaftError::new_err(format!(
                    "not between {least} and {}",
                    2 * least - 1
                )));
            }
            member.election_timeout = Some(ticks);
            Ok(())
        })
    }

    fn status(&mut self) -> PyResult<PyStatus> {
        self.enter(|member| {
            let raft = &member.node.raft;
            let (first_index, _) = member.node.store().bounds();
            let mut progress = Vec::new();
            if raft.state == StateRole::Leader {
                for (id, peer) in raft.prs().iter() {
                    let state = format!("{}", peer.state).to_lowercase();
                    progress.push((
                        *id,
                        (
                            peer.matched,
                            peer.next_idx,
                            state,
                            peer.recent_active,
                            peer.is_paused(),
                        ),
                    ));
                }
                progress.sort();
            }
            let mut voters: Vec<u64> = raft.prs().conf().voters().ids().iter().collect();
            voters.sort_unstable();
            Ok(PyStatus {
                id: raft.id,
                term: raft.term,
                vote: raft.vote,
                leader: raft.leader_id,
                role: convert::role(raft.state),
                first_index,
                last_index: raft.raft_log.last_index(),
                committed: raft.raft_log.committed,
                persisted: raft.raft_log.persisted,
                applied: raft.raft_log.applied,
                voters,
                progress,
            })
        })
    }
}
