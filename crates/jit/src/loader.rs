//! Loading of object files, freshly made or from a cache: LLVM's ORC links each into memory of ours.
//!
//! An object names the functions that it calls and has no address of a process in it, so it is as good in the next process as
//! in the one that made it. Each is linked in a separate ORC session, which ends when that is done: what stays of a
//! loaded object is its memory, which any thread may drop.

use crate::emit::runtime_symbol;
use crate::error::JitError;
use crate::memory::{Content, ObjectMemory};
use crate::{host, runtime};
use inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use inkwell::llvm_sys::orc2::ee::LLVMOrcCreateRTDyldObjectLinkingLayerWithMCJITMemoryManagerLikeCallbacks;
use inkwell::llvm_sys::orc2::lljit::{
    LLVMOrcCreateLLJIT, LLVMOrcCreateLLJITBuilder, LLVMOrcDisposeLLJIT, LLVMOrcLLJITAddObjectFile,
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder, LLVMOrcLLJITBuilderSetObjectLinkingLayerCreator,
    LLVMOrcLLJITGetExecutionSession, LLVMOrcLLJITGetMainJITDylib, LLVMOrcLLJITLookup, LLVMOrcLLJITRef,
};
use inkwell::llvm_sys::orc2::{
    LLVMJITEvaluatedSymbol, LLVMJITSymbolFlags, LLVMJITSymbolGenericFlags, LLVMOrcAbsoluteSymbols, LLVMOrcCLookupSet,
    LLVMOrcCSymbolMapPair, LLVMOrcCreateCustomCAPIDefinitionGenerator, LLVMOrcDefinitionGeneratorRef,
    LLVMOrcDisposeMaterializationUnit, LLVMOrcExecutionSessionRef, LLVMOrcExecutionSessionSetErrorReporter,
    LLVMOrcJITDylibAddGenerator, LLVMOrcJITDylibDefine, LLVMOrcJITDylibLookupFlags, LLVMOrcJITDylibRef,
    LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine, LLVMOrcLookupKind, LLVMOrcLookupStateRef,
    LLVMOrcObjectLayerRef, LLVMOrcRetainSymbolStringPoolEntry, LLVMOrcSymbolStringPoolEntryStr,
};
use inkwell::llvm_sys::prelude::LLVMBool;
use millstream_abi::RuntimeFn;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

/// Links an object file with the functions of this process: its memory, and the address of one of its functions. The
/// memory holds the code: whoever runs it keeps it.
pub(crate) fn load(object: &[u8], function: &CStr) -> Result<(ObjectMemory, usize), JitError> {
    let memory = ObjectMemory::reserve(object.len())
        .map_err(|e| JitError::Loading(format!("the system gives no memory for code: {e}")))?;
    let link = Box::into_raw(Box::new(Link { memory, reports: Vec::new() }));
    let mut session = Session { jit: ptr::null_mut(), link };
    let address = session.start().and_then(|()| session.link(object, function));
    drop(session);
    // SAFETY: made by `into_raw` above; the session, which alone had copies, is gone.
    let link = unsafe { Box::from_raw(link) };
    Ok((link.memory, address?))
}

/// An ORC session; it ends when dropped, and leaves the memory of its object alone.
struct Session {
    /// Null before ORC is there.
    jit: LLVMOrcLLJITRef,
    /// Outlives the session; ORC's callbacks write it during calls into ORC, when nobody else has a reference.
    link: *mut Link,
}

/// What ORC's callbacks work with.
struct Link {
    memory: ObjectMemory,
    /// What ORC has to say about failures.
    reports: Vec<String>,
}

impl Session {
    /// Makes the session.
    fn start(&mut self) -> Result<(), JitError> {
        let machine = host::plain_machine()?;
        // SAFETY: every maker is given what the one before has made, and takes it over; the callbacks have the signatures
        // that ORC calls, and `link` outlives the session.
        unsafe {
            let builder = LLVMOrcCreateLLJITBuilder();
            let description = LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine);
            LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder, description);
            LLVMOrcLLJITBuilderSetObjectLinkingLayerCreator(builder, make_layer, self.link.cast());
            let mut jit = ptr::null_mut();
            self.check(LLVMOrcCreateLLJIT(&raw mut jit, builder))?;
            self.jit = jit;
            LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(jit), report, self.link.cast());
            let functions = LLVMOrcCreateCustomCAPIDefinitionGenerator(find_functions, ptr::null_mut(), ignore);
            LLVMOrcJITDylibAddGenerator(LLVMOrcLLJITGetMainJITDylib(jit), functions);
        }
        Ok(())
    }

    /// Links the object: the address of a function of it.
    fn link(&self, object: &[u8], function: &CStr) -> Result<usize, JitError> {
        let mut address = 0;
        // SAFETY: the session is alive and takes the copy of the object over, whatever happens. Linking happens in the
        // last call.
        unsafe {
            let (start, length) = (object.as_ptr().cast::<c_char>(), object.len());
            let buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(start, length, c"object".as_ptr());
            let library = LLVMOrcLLJITGetMainJITDylib(self.jit);
            self.check(LLVMOrcLLJITAddObjectFile(self.jit, library, buffer))?;
            self.check(LLVMOrcLLJITLookup(self.jit, &raw mut address, function.as_ptr()))?;
        }
        Ok(address as usize)
    }

    /// Takes an error of LLVM.
    fn check(&self, error: LLVMErrorRef) -> Result<(), JitError> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: `link` outlives the session, and no callback runs, since the call has returned.
        let mut messages = unsafe { std::mem::take(&mut (*self.link).reports) };
        messages.push(message(error));
        Err(JitError::Loading(messages.join("; ")))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.jit.is_null() {
            return;
        }
        // SAFETY: made by `start`, and freed once.
        let error = unsafe { LLVMOrcDisposeLLJIT(self.jit) };
        if !error.is_null() {
            message(error);
        }
    }
}

/// Names and addresses of all functions that generated code may call.
fn functions() -> &'static HashMap<String, usize> {
    static FUNCTIONS: OnceLock<HashMap<String, usize>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let support = runtime::all().into_iter().map(|s| (s.name.to_string(), s.address));
        let of_runtime = |f: &RuntimeFn| (runtime_symbol(*f), millstream_functions::address(*f) as usize);
        support.chain(RuntimeFn::ALL.iter().map(of_runtime)).collect()
    })
}

/// Defines those of the names asked for that are functions of ours; what is left is looked for in the process.
extern "C" fn find_functions(
    _generator: LLVMOrcDefinitionGeneratorRef,
    _context: *mut c_void,
    _state: *mut LLVMOrcLookupStateRef,
    _kind: LLVMOrcLookupKind,
    library: LLVMOrcJITDylibRef,
    _flags: LLVMOrcJITDylibLookupFlags,
    names: LLVMOrcCLookupSet,
    count: usize,
) -> LLVMErrorRef {
    use LLVMJITSymbolGenericFlags::{LLVMJITSymbolGenericFlagsCallable, LLVMJITSymbolGenericFlagsExported};
    let flags = LLVMJITSymbolGenericFlagsExported as u8 | LLVMJITSymbolGenericFlagsCallable as u8;
    // SAFETY: ORC gives an array of `count` names, which live during the call. The reference that is counted here is
    // taken over by the unit, and the unit by the library, unless that fails.
    unsafe {
        let mut found = Vec::new();
        for asked in (0..count).map(|i| &*names.add(i)) {
            let name = CStr::from_ptr(LLVMOrcSymbolStringPoolEntryStr(asked.Name));
            let Some(&address) = name.to_str().ok().and_then(|name| functions().get(name)) else { continue };
            LLVMOrcRetainSymbolStringPoolEntry(asked.Name);
            let flags = LLVMJITSymbolFlags { GenericFlags: flags, TargetFlags: 0 };
            let symbol = LLVMJITEvaluatedSymbol { Address: address as u64, Flags: flags };
            found.push(LLVMOrcCSymbolMapPair { Name: asked.Name, Sym: symbol });
        }
        if found.is_empty() {
            return ptr::null_mut();
        }
        let unit = LLVMOrcAbsoluteSymbols(found.as_mut_ptr(), found.len());
        let error = LLVMOrcJITDylibDefine(library, unit);
        if !error.is_null() {
            LLVMOrcDisposeMaterializationUnit(unit);
        }
        error
    }
}

/// Takes the text of an error and frees it.
fn message(error: LLVMErrorRef) -> String {
    // SAFETY: the error is one that LLVM has handed over, so that it is freed here and nowhere else.
    unsafe {
        let text = LLVMGetErrorMessage(error);
        let message = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(text);
        message
    }
}

extern "C" fn report(link: *mut c_void, error: LLVMErrorRef) {
    // SAFETY: `link` is that of `load`, which outlives the session, and nobody else has a reference during a call of ORC.
    unsafe { (*link.cast::<Link>()).reports.push(message(error)) };
}

extern "C" fn make_layer(
    link: *mut c_void,
    session: LLVMOrcExecutionSessionRef,
    _triple: *const c_char,
) -> LLVMOrcObjectLayerRef {
    // SAFETY: `link` outlives the session, and the callbacks have the signatures that LLVM calls.
    unsafe {
        LLVMOrcCreateRTDyldObjectLinkingLayerWithMCJITMemoryManagerLikeCallbacks(
            session,
            link,
            same_link,
            ignore,
            allocate_code,
            allocate_data,
            protect,
            Some(ignore),
        )
    }
}

/// The one object of a session uses the one memory.
extern "C" fn same_link(link: *mut c_void) -> *mut c_void {
    link
}

/// Memory is freed by its owner, and functions need not be.
extern "C" fn ignore(_context: *mut c_void) {}

extern "C" fn allocate_code(
    link: *mut c_void,
    size: usize,
    alignment: c_uint,
    _id: c_uint,
    _name: *const c_char,
) -> *mut u8 {
    // SAFETY: as in `report`.
    unsafe { (*link.cast::<Link>()).memory.allocate(size, alignment as usize, Content::Code) }
}

extern "C" fn allocate_data(
    link: *mut c_void,
    size: usize,
    alignment: c_uint,
    _id: c_uint,
    _name: *const c_char,
    is_read_only: LLVMBool,
) -> *mut u8 {
    let content = if is_read_only != 0 { Content::Constants } else { Content::Variables };
    // SAFETY: as in `report`.
    unsafe { (*link.cast::<Link>()).memory.allocate(size, alignment as usize, content) }
}

extern "C" fn protect(link: *mut c_void, message: *mut *mut c_char) -> LLVMBool {
    // SAFETY: as in `report`.
    match unsafe { (*link.cast::<Link>()).memory.protect() } {
        Ok(()) => 0,
        Err(error) => {
            let text = CString::new(format!("code cannot be made executable: {error}")).unwrap_or_default();
            // SAFETY: LLVM gives a place for the message and frees it as C does.
            unsafe { *message = libc::strdup(text.as_ptr()) };
            1
        }
    }
}
