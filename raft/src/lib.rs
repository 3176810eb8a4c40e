//! The Raft core of TiKV (crate `raft`) for Python: bytes in, bytes out, no I/O, no clock, no threads.
//!
//! Nothing of the protocol is decided here. This file has the module and its exceptions, `node.rs` the calls,
//! `log.rs` the part of the log that Raft reads, `convert.rs` what crosses the border.

mod convert;
mod log;
mod node;

use std::cell::RefCell;
use std::panic;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    _engine,
    RaftError,
    PyException,
    "Raft refuses a call or a message; the group goes on."
);
create_exception!(
    _engine,
    ProposalDropped,
    RaftError,
    "A proposal was not taken: this node does not lead, hands leadership over, or too much is uncommitted."
);
create_exception!(
    _engine,
    GroupStopped,
    PyException,
    "The group is beyond use: an invariant broke, or its log could not be read. Make it anew from its files."
);

thread_local! {
    /// What the last panic of this thread said, and where.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The text of the panic that was just caught.
pub(crate) fn panic_text() -> String {
    PANIC.with(|text| text.take())
}

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // The hook of this library's own runtime, not of the process: the text goes into the exception instead of stderr.
    panic::set_hook(Box::new(|info| {
        let said = info.payload();
        let said = said
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| said.downcast_ref::<&str>().copied())
            .unwrap_or("it does not say why");
        let place = info.location().map_or(String::new(), |at| {
            let file = at.file().rsplit('/').next().unwrap_or_default();
            format!(" ({file}:{})", at.line())
        });
        PANIC.with(|text| *text.borrow_mut() = format!("Raft panicked: {said}{place}"));
    }));
    let py = module.py();
    module.add("RaftError", py.get_type::<RaftError>())?;
    module.add("ProposalDropped", py.get_type::<ProposalDropped>())?;
    module.add("GroupStopped", py.get_type::<GroupStopped>())?;
    module.add_class::<convert::PyReady>()?;
    module.add_class::<convert::PyStatus>()?;
    module.add_class::<node::RawNode>()?;
    Ok(())
}
