//! What crosses the border: plain tuples of numbers and bytes, and two objects with read-only fields.

use prost::Message as _;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Message, Snapshot};
use raft::StateRole;

use crate::RaftError;

/// `(term, vote, commit)`
pub type HardStateTuple = (u64, u64, u64);
/// `(voters, learners, outgoing voters, next learners, whether a joint state is left by itself)`
pub type ConfStateTuple = (Vec<u64>, Vec<u64>, Vec<u64>, Vec<u64>, bool);
/// Of one peer: `(matched, next index, state, recently active, paused)`
pub type ProgressTuple = (u64, u64, String, bool, bool);

const ENTRY_KINDS: u8 = 3; // normal, conf change, conf change v2
const MESSAGE_KINDS: i32 = 19;

/// What Raft wants done.
#[pyclass(frozen, get_all, module = "slipstream_raft", name = "Ready")]
pub struct PyReady {
    /// To be given to `on_persist_ready`.
    number: u64,
    /// `(to, kind, bytes)`; may be sent at once.
    messages: Py<PyList>,
    /// To be sent when everything of this and earlier `Ready`s is on disk.
    persisted_messages: Py<PyList>,
    /// `(index, term, kind, data)` to be appended; the first replaces what is at its index and behind.
    entries: Py<PyList>,
    hard_state: Option<HardStateTuple>,
    /// Whether this has to be synced before `on_persist_ready`.
    must_sync: bool,
    /// `(index, term, kind, data)` to be applied; on this disk already.
    committed: Py<PyList>,
    /// `(index, term, conf state, data)` that replaces the whole log.
    snapshot: Option<(u64, u64, ConfStateTuple, Py<PyBytes>)>,
    /// `(index, context)`: who asked may read once `index` is applied.
    read_states: Vec<(u64, Py<PyBytes>)>,
    /// `(leader or 0, role)` if one of them changed.
    soft_state: Option<(u64, &'static str)>,
}

/// How a node stands.
#[pyclass(frozen, get_all, module = "slipstream_raft", name = "Status")]
pub struct PyStatus {
    pub id: u64,
    pub term: u64,
    pub vote: u64,
    pub leader: u64,
    pub role: &'static str,
    pub first_index: u64,
    pub last_index: u64,
    pub committed: u64,
    pub persisted: u64,
    pub applied: u64,
    pub voters: Vec<u64>,
    /// Only of a leader.
    pub progress: Vec<(u64, ProgressTuple)>,
}

pub fn role(state: StateRole) -> &'static str {
    match state {
        StateRole::Follower => "follower",
        StateRole::PreCandidate => "pre-candidate",
        StateRole::Candidate => "candidate",
        StateRole::Leader => "leader",
    }
}

pub fn ready(py: Python<'_>, rd: &mut raft::Ready) -> PyResult<PyReady> {
    let snapshot = rd.snapshot();
    let snapshot = (!snapshot.is_empty()).then(|| {
        let metadata = snapshot.get_metadata();
        let data = PyBytes::new(py, &snapshot.data).unbind();
        (
            metadata.index,
            metadata.term,
            conf_state_tuple(metadata.get_conf_state()),
            data,
        )
    });
    Ok(PyReady {
        number: rd.number(),
        messages: messages(py, &rd.take_messages())?,
        persisted_messages: messages(py, &rd.take_persisted_messages())?,
        entries: entries(py, rd.entries())?,
        hard_state: rd.hs().map(|hs| (hs.term, hs.vote, hs.commit)),
        must_sync: rd.must_sync(),
        committed: entries(py, rd.committed_entries())?,
        snapshot,
        read_states: rd
            .read_states()
            .iter()
            .map(|state| (state.index, PyBytes::new(py, &state.request_ctx).unbind()))
            .collect(),
        soft_state: rd.ss().map(|ss| (ss.leader_id, role(ss.raft_state))),
    })
}

fn entries(py: Python<'_>, entries: &[Entry]) -> PyResult<Py<PyList>> {
    let rows = entries
        .iter()
        .map(|e| {
            (
                e.index,
                e.term,
                e.entry_type as u8,
                PyBytes::new(py, &e.data),
            )
                .into_pyobject(py)
        })
        .collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, rows)?.unbind())
}

fn messages(py: Python<'_>, messages: &[Message]) -> PyResult<Py<PyList>> {
    let mut rows = Vec::with_capacity(messages.len());
    for message in messages {
        let bytes = message.encode_to_vec();
        rows.push(
            (message.to, message.msg_type as u8, PyBytes::new(py, &bytes)).into_pyobject(py)?,
        );
    }
    Ok(PyList::new(py, rows)?.unbind())
}

/// A message of a peer. What cannot be one is refused here: Raft takes its shape for granted.
pub fn message_from(bytes: &[u8], id: u64) -> PyResult<Message> {
    let message =
        Message::decode(bytes).map_err(|_| RaftError::new_err("these bytes are not a message"))?;
    let refuse = |why: &str| {
        Err(RaftError::new_err(format!(
            "not a message for this node: {why}"
        )))
    };
    if !(0..MESSAGE_KINDS).contains(&message.msg_type) {
        return refuse("of an unknown kind");
    }
    if message.to != id {
        return refuse("it is for another one");
    }
    if message.from == 0 || message.from == id {
        return refuse("it is from nobody");
    }
    let expected = message.index.checked_add(1);
    for (at, entry) in message.entries.iter().enumerate() {
        if !(0..i32::from(ENTRY_KINDS)).contains(&entry.entry_type) {
            return refuse("it has an entry of an unknown kind");
        }
        let is_append = message.msg_type == raft::eraftpb::MessageType::MsgAppend as i32;
        if is_append
            && (expected.and_then(|first| first.checked_add(at as u64)) != Some(entry.index))
        {
            return refuse("its entries are not in a row");
        }
        if is_append && (entry.term == 0 || entry.term > message.term) {
            return refuse("it has an entry of a later term");
        }
    }
    Ok(message)
}

pub fn entries_from(rows: &Bound<'_, PyAny>) -> PyResult<Vec<Entry>> {
    let mut entries = Vec::new();
    for row in rows.try_iter()? {
        let (index, term, kind, data): (u64, u64, u8, Bound<'_, PyBytes>) = row?.extract()?;
        if kind >= ENTRY_KINDS {
            return Err(PyValueError::new_err(format!(
                "entry {index} is of an unknown kind: {kind}"
            )));
        }
        let mut entry = Entry {
            index,
            term,
            data: data.as_bytes().to_vec(),
            ..Default::default()
        };
        entry.set_entry_type(match kind {
            0 => EntryType::EntryNormal,
            1 => EntryType::EntryConfChange,
            _ => EntryType::EntryConfChangeV2,
        });
        entries.push(entry);
    }
    Ok(entries)
}

pub fn snapshot_from(row: &Bound<'_, PyAny>) -> PyResult<Option<Snapshot>> {
    if row.is_none() {
        return Ok(None);
    }
    let row = row.cast::<PyTuple>()?;
    let (index, term, conf_state, data): (u64, u64, ConfStateTuple, Bound<'_, PyBytes>) =
        row.extract()?;
    let mut snapshot = Snapshot {
        data: data.as_bytes().to_vec(),
        ..Default::default()
    };
    let metadata = snapshot.mut_metadata();
    metadata.index = index;
    metadata.term = term;
    metadata.set_conf_state(conf_state_from(conf_state));
    Ok(Some(snapshot))
}

pub fn hard_state_from((term, vote, commit): HardStateTuple) -> HardState {
    HardState { term, vote, commit }
}

pub fn conf_state_from(
    (voters, learners, outgoing, next, auto_leave): ConfStateTuple,
) -> ConfState {
    ConfState {
        voters,
        learners,
        voters_outgoing: outgoing,
        learners_next: next,
        auto_leave,
    }
}

pub fn conf_state_tuple(state: &ConfState) -> ConfStateTuple {
    (
        state.voters.clone(),
        state.learners.clone(),
        state.voters_outgoing.clone(),
        state.learners_next.clone(),
        state.auto_leave,
    )
}
