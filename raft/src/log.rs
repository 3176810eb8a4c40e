//! The log as Raft reads it: its newest entries in memory, the terms of all, older entries through a reader in Python.

use std::cell::RefCell;
use std::collections::VecDeque;

use pyo3::prelude::*;
use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Result, Storage, StorageError};

use crate::convert;

/// What `initial_state` and the bounds of the log are made of.
pub struct Opening {
    pub hard_state: HardState,
    pub conf_state: ConfState,
    pub first_index: u64,
    pub last_index: u64,
    /// `(first index, term)` of each run of entries with one term, from `first_index - 1` on.
    pub terms: Vec<(u64, u64)>,
}

/// Raft's window into the log. What it holds is what was proposed or received, not what is on disk.
pub struct Log {
    hard_state: HardState,
    conf_state: ConfState,
    first_index: u64,
    last_index: u64,
    terms: Vec<(u64, u64)>,
    window: VecDeque<Entry>, // the newest entries, without gaps up to `last_index`
    window_bytes: usize,
    persisted: u64,
    reader: Py<PyAny>,
    /// An exception of the reader. Raft forgives some errors of its storage; a group whose log fails does not go on.
    failed: RefCell<Option<PyErr>>,
}

fn cost(entry: &Entry) -> usize {
    entry.data.len() + std::mem::size_of::<Entry>()
}

impl Log {
    pub fn new(opening: Opening, reader: Py<PyAny>) -> Self {
        Log {
            hard_state: opening.hard_state,
            conf_state: opening.conf_state,
            first_index: opening.first_index,
            last_index: opening.last_index,
            terms: opening.terms,
            window: VecDeque::new(),
            window_bytes: 0,
            persisted: opening.last_index,
            reader,
            failed: RefCell::new(None),
        }
    }

    pub fn bounds(&self) -> (u64, u64) {
        (self.first_index, self.last_index)
    }

    pub fn take_failure(&self) -> Option<PyErr> {
        self.failed.borrow_mut().take()
    }

    /// Entries that Raft wants kept: they replace everything from the first of them on.
    pub fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        self.cut(first.index);
        for entry in entries {
            if self.terms.last().map(|run| run.1) != Some(entry.term) {
                self.terms.push((entry.index, entry.term));
            }
            self.window_bytes += cost(entry);
            self.window.push_back(entry.clone());
        }
        self.last_index = entries[entries.len() - 1].index;
        self.persisted = self.persisted.min(first.index - 1);
    }

    fn cut(&mut self, from: u64) {
        while self.window.back().is_some_and(|entry| entry.index >= from) {
            self.window_bytes -= cost(&self.window.pop_back().unwrap());
        }
        // The entry before `first_index` keeps its term: it is what the next one is matched against.
        while self.terms.len() > 1 && self.terms[self.terms.len() - 1].0 >= from {
            self.terms.pop();
        }
        self.last_index = self.last_index.min(from - 1);
    }

    /// Everything up to this entry is on disk, and can be read through the reader; unless it was replaced meanwhile.
    pub fn persist_to(&mut self, index: u64, term: u64) {
        if index <= self.last_index && self.run(index).1 == term {
            self.persisted = self.persisted.max(index);
        }
    }

    /// Forget entries that can be read elsewhere until the window has at most so many bytes.
    pub fn shrink(&mut self, bytes: usize) {
        while self.window_bytes > bytes
            && self
                .window
                .front()
                .is_some_and(|entry| entry.index <= self.persisted)
        {
            self.window_bytes -= cost(&self.window.pop_front().unwrap());
        }
    }

    /// Entries up to this one are only in snapshots from now on.
    pub fn compact(&mut self, index: u64) -> std::result::Result<(), String> {
        if index < self.first_index {
            return Ok(());
        }
        if index > self.persisted {
            return Err(format!(
                "cannot compact to {index}: on disk is {}",
                self.persisted
            ));
        }
        let term = self.run(index).1;
        self.first_index = index + 1;
        while self
            .window
            .front()
            .is_some_and(|entry| entry.index <= index)
        {
            self.window_bytes -= cost(&self.window.pop_front().unwrap());
        }
        self.terms.retain(|run| run.0 > index);
        self.terms.insert(0, (index, term));
        Ok(())
    }

    /// The log is this snapshot and nothing else.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        let metadata = snapshot.get_metadata();
        self.window.clear();
        self.window_bytes = 0;
        self.terms = vec![(metadata.index, metadata.term)];
        self.first_index = metadata.index + 1;
        self.last_index = metadata.index;
        self.persisted = metadata.index;
        self.conf_state = metadata.get_conf_state().clone();
    }

    pub fn set_conf_state(&mut self, conf_state: ConfState) {
        self.conf_state = conf_state;
    }

    fn run(&self, index: u64) -> (u64, u64) {
        let behind = self.terms.partition_point(|run| run.0 <= index);
        self.terms[behind.max(1) - 1]
    }

    /// Ask Python for `low..high`, as many as fit into `max_bytes`, at least one.
    fn read(&self, low: u64, high: u64, max_bytes: u64) -> PyResult<Vec<Entry>> {
        Python::attach(|py| {
            let answer = self
                .reader
                .call_method1(py, "entries", (low, high, max_bytes))?;
            let entries = convert::entries_from(answer.bind(py))?;
            let sound = !entries.is_empty()
                && entries.len() as u64 <= high - low
                && entries
                    .iter()
                    .zip(low..)
                    .all(|(e, i)| e.index == i && e.term == self.run(i).1);
            if sound {
                Ok(entries)
            } else {
                Err(pyo3::exceptions::PyValueError::new_err(format!(
                    "the reader was asked for entries {low} to {} and gave others",
                    high - 1
                )))
            }
        })
    }

    fn fail<T>(&self, error: PyErr) -> Result<T> {
        let text = error.to_string();
        self.failed.borrow_mut().get_or_insert(error);
        Err(Error::Store(StorageError::Other(text.into())))
    }
}

impl Storage for Log {
    fn initial_state(&self) -> Result<RaftState> {
        Ok(RaftState::new(
            self.hard_state.clone(),
            self.conf_state.clone(),
        ))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        if low < self.first_index {
            return Err(Error::Store(StorageError::Compacted));
        }
        if high > self.last_index + 1 {
            return Err(Error::Store(StorageError::Unavailable));
        }
        let max_bytes = max_size.into().unwrap_or(u64::MAX);
        let window_first = self
            .window
            .front()
            .map_or(self.last_index + 1, |entry| entry.index);
        if low < window_first {
            return match self.read(low, high.min(window_first), max_bytes) {
                Ok(entries) => Ok(entries),
                Err(error) => self.fail(error),
            };
        }
        let (from, to) = (
            (low - window_first) as usize,
            (high - window_first) as usize,
        );
        let mut taken: Vec<Entry> = Vec::with_capacity(to - from);
        let mut bytes = 0u64;
        for entry in self.window.range(from..to) {
            bytes += cost(entry) as u64;
            if bytes > max_bytes && !taken.is_empty() {
                break;
            }
            taken.push(entry.clone());
        }
        Ok(taken)
    }

    fn term(&self, index: u64) -> Result<u64> {
        if index + 1 < self.first_index {
            return Err(Error::Store(StorageError::Compacted));
        }
        if index > self.last_index {
            return Err(Error::Store(StorageError::Unavailable));
        }
        Ok(self.run(index).1)
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.first_index)
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last_index)
    }

    fn snapshot(&self, request_index: u64, to: u64) -> Result<Snapshot> {
        let answer = Python::attach(|py| -> PyResult<Option<Snapshot>> {
            let answer = self
                .reader
                .call_method1(py, "snapshot", (request_index, to))?;
            convert::snapshot_from(answer.bind(py))
        });
        match answer {
            Ok(Some(snapshot)) => Ok(snapshot),
            Ok(None) => Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable)),
            Err(error) => self.fail(error),
        }
    }
}
