//! A thin layer over inkwell's builder: memory access by byte offset, constants, declarations, and the two blocks at the
//! start of the function that anything can be hoisted to.

use crate::error::JitError;
use crate::runtime::Word;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::context::{AsContextRef, Context};
use inkwell::intrinsics::Intrinsic;
use inkwell::llvm_sys::core::{LLVMMDNodeInContext2, LLVMMetadataAsValue, LLVMValueAsMetadata};
use inkwell::llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
use inkwell::module::{Linkage, Module};
use inkwell::types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum, FloatType, IntType, PointerType};
use inkwell::values::{
    AsValueRef, BasicMetadataValueEnum, BasicValue, BasicValueEnum, FunctionValue, InstructionValue, IntValue,
    MetadataValue, PhiValue, PointerValue,
};
use inkwell::{AddressSpace, AtomicOrdering, IntPredicate};
use millstream_abi::Phys;
use std::ptr;

/// Short names of inkwell's values, which appear everywhere here.
pub(crate) type Basic<'c> = BasicValueEnum<'c>;
pub(crate) type Int<'c> = IntValue<'c>;
pub(crate) type Ptr<'c> = PointerValue<'c>;
pub(crate) type Block<'c> = BasicBlock<'c>;
/// Every emitting function can fail only by a bug in it.
pub(crate) type Emitted<T> = Result<T, JitError>;

const CACHE_LINE_BYTES: u64 = 64;

/// `memory(read)`: reads anything, writes nothing.
const MEMORY_READ: u64 = 0b01_01_01;
/// `memory(argmem: readwrite)`.
const MEMORY_ARGUMENTS: u64 = 0b11;

/// The function being built.
pub(crate) struct Ir<'c> {
    pub(crate) context: &'c Context,
    pub(crate) module: Module<'c>,
    pub(crate) b: Builder<'c>,
    pub(crate) function: FunctionValue<'c>,
    pub(crate) i1: IntType<'c>,
    pub(crate) i8: IntType<'c>,
    pub(crate) i32: IntType<'c>,
    pub(crate) i64: IntType<'c>,
    pub(crate) i128: IntType<'c>,
    pub(crate) f64: FloatType<'c>,
    pub(crate) ptr: PointerType<'c>,
    /// Stack slots.
    entry: Block<'c>,
    /// What is computed once a run.
    setup: Block<'c>,
    /// Alias scope of each region: the input, which nothing writes during a run, then the arrays that rows are emitted to. So
    /// LLVM knows that stores to outputs do not change inputs.
    scopes: Vec<MetadataValue<'c>>,
    /// Whether the machine packs the marked elements of a vector by one instruction.
    pub(crate) can_compress: bool,
}

impl<'c> Ir<'c> {
    /// A module with the function `run`, and `outputs` output arrays, for a machine with such features in LLVM's notation.
    /// The builder is in no block yet.
    pub(crate) fn new(context: &'c Context, name: &str, outputs: usize, features: &str) -> Ir<'c> {
        let module = context.create_module(name);
        module.set_source_file_name(name);
        let ptr = context.ptr_type(AddressSpace::default());
        let i64 = context.i64_type();
        let function = module.add_function("run", i64.fn_type(&[ptr.into(), i64.into(), i64.into()], false), None);
        for (number, name) in ["context", "start", "end"].iter().enumerate() {
            if let Some(parameter) = function.get_nth_param(number as u32) {
                parameter.set_name(name);
            }
        }
        let domain = context.metadata_node(&[context.metadata_string("millstream").into()]);
        let scope = |name: String| {
            let name = context.metadata_string(&name);
            context.metadata_node(&[name.into(), domain.into()])
        };
        let scopes =
            std::iter::once("input".into()).chain((0..outputs).map(|k| format!("output {k}"))).map(scope).collect();
        Ir {
            context,
            b: context.create_builder(),
            function,
            i1: context.bool_type(),
            i8: context.i8_type(),
            i32: context.i32_type(),
            i64,
            i128: context.i128_type(),
            f64: context.f64_type(),
            ptr,
            entry: context.append_basic_block(function, "entry"),
            setup: context.append_basic_block(function, "setup"),
            scopes,
            can_compress: features.split(',').any(|feature| feature == "+avx512f"),
            module,
        }
    }

    /// The context of the run, and its row range.
    pub(crate) fn parameters(&self) -> (Ptr<'c>, Int<'c>, Int<'c>) {
        let parameter = |n| self.function.get_nth_param(n).expect("`run` has three parameters");
        (parameter(0).into_pointer_value(), parameter(1).into_int_value(), parameter(2).into_int_value())
    }

    /// Type of a value in registers.
    pub(crate) fn register_type(&self, phys: Phys) -> BasicTypeEnum<'c> {
        match phys {
            Phys::Bool => self.i1.into(),
            _ => self.memory_type(phys),
        }
    }

    /// Type of a value in memory.
    pub(crate) fn memory_type(&self, phys: Phys) -> BasicTypeEnum<'c> {
        match phys {
            Phys::Bool | Phys::I8 => self.i8.into(),
            Phys::I16 => self.context.i16_type().into(),
            Phys::I32 => self.i32.into(),
            Phys::I64 => self.i64.into(),
            Phys::I128 | Phys::Str => self.i128.into(),
            Phys::F32 => self.context.f32_type().into(),
            Phys::F64 => self.f64.into(),
        }
    }

    /// A 64-bit constant.
    pub(crate) fn word(&self, n: u64) -> Int<'c> {
        self.i64.const_int(n, false)
    }

    /// A constant of an integer type, truncated to it.
    pub(crate) fn constant(&self, ty: IntType<'c>, n: i128) -> Int<'c> {
        if ty.get_bit_width() == 128 {
            ty.const_int_arbitrary_precision(&[n as u64, (n >> 64) as u64])
        } else {
            let kept = u64::MAX >> (64 - ty.get_bit_width());
            ty.const_int(n as u64 & kept, false)
        }
    }

    /// A new block at the end of the function.
    pub(crate) fn block(&self, name: &str) -> Block<'c> {
        self.context.append_basic_block(self.function, name)
    }

    /// The block that is being written.
    pub(crate) fn current(&self) -> Block<'c> {
        self.b.get_insert_block().expect("the builder is always in a block while statements are emitted")
    }

    /// Continues writing at the end of a block.
    pub(crate) fn enter(&self, block: Block<'c>) {
        self.b.position_at_end(block);
    }

    /// Ends the block with a jump.
    pub(crate) fn jump(&self, to: Block<'c>) -> Emitted<()> {
        self.b.build_unconditional_branch(to)?;
        Ok(())
    }

    /// Ends the last block of a loop over rows. Such loops begin at a cache line: those of a few instructions otherwise
    /// run at half the speed whenever they happen to lie across two.
    pub(crate) fn jump_back(&self, head: Block<'c>) -> Emitted<()> {
        let jump = self.b.build_unconditional_branch(head)?;
        let align = self.context.metadata_node(&[
            self.context.metadata_string("llvm.loop.align").into(),
            self.i32.const_int(CACHE_LINE_BYTES, false).into(),
        ]);
        self.annotate(jump, self.loop_id(align), "llvm.loop");
        Ok(())
    }

    /// The metadata of a loop: a distinct node, which has itself as its first element.
    fn loop_id(&self, property: MetadataValue<'c>) -> MetadataValue<'c> {
        let context = self.context.as_ctx_ref();
        // SAFETY: all nodes are of this context; the temporary one is replaced, and thereby freed, before it can be seen.
        unsafe {
            let this = LLVMTemporaryMDNode(context, ptr::null_mut(), 0);
            let mut elements = [this, LLVMValueAsMetadata(property.as_value_ref())];
            let node = LLVMMDNodeInContext2(context, elements.as_mut_ptr(), elements.len());
            LLVMMetadataReplaceAllUsesWith(this, node);
            MetadataValue::new(LLVMMetadataAsValue(context, node))
        }
    }

    /// Begins a loop at `head`: its counter, which is `from` at first, and the value of that.
    pub(crate) fn begin_loop(&self, head: Block<'c>, from: Int<'c>, name: &str) -> Emitted<(PhiValue<'c>, Int<'c>)> {
        let before = self.current();
        self.jump(head)?;
        self.enter(head);
        let counter = self.b.build_phi(self.i64, name)?;
        counter.add_incoming(&[(&from, before)]);
        Ok((counter, counter.as_basic_value().into_int_value()))
    }

    /// Moves a block behind all others.
    pub(crate) fn move_to_end(&self, block: Block<'c>) {
        if let Some(last) = self.function.get_last_basic_block()
            && last != block
        {
            let _ = block.move_after(last);
        }
    }

    /// Ends the block with a branch.
    pub(crate) fn branch(&self, condition: Int<'c>, then: Block<'c>, otherwise: Block<'c>) -> Emitted<()> {
        self.b.build_conditional_branch(condition, then, otherwise)?;
        Ok(())
    }

    /// A branch that almost always goes to `often`.
    pub(crate) fn branch_rarely(&self, condition: Int<'c>, rarely: Block<'c>, often: Block<'c>) -> Emitted<()> {
        let branch = self.b.build_conditional_branch(condition, rarely, often)?;
        let weights = [self.i32.const_int(1, false).into(), self.i32.const_int(2000, false).into()];
        let node = self.context.metadata_node(&[
            self.context.metadata_string("branch_weights").into(),
            weights[0],
            weights[1],
        ]);
        self.annotate(branch, node, "prof");
        Ok(())
    }

    /// Writes something that is computed once a run, and comes back.
    pub(crate) fn hoist<T>(&self, write: impl FnOnce(&Self) -> Emitted<T>) -> Emitted<T> {
        self.elsewhere(self.setup, write)
    }

    /// Writes something at the end of a block, and comes back.
    fn elsewhere<T>(&self, block: Block<'c>, write: impl FnOnce(&Self) -> Emitted<T>) -> Emitted<T> {
        let here = self.b.get_insert_block();
        self.enter(block);
        let result = write(self);
        if let Some(here) = here {
            self.enter(here);
        }
        result
    }

    /// A stack slot.
    pub(crate) fn slot(&self, ty: impl BasicType<'c>, name: &str) -> Emitted<Ptr<'c>> {
        let slot = self.elsewhere(self.entry, |ir| Ok(ir.b.build_alloca(ty, name)?))?;
        if let Some(instruction) = slot.as_instruction() {
            // Arrays of slots and spilled values hold 16-byte values.
            let _ = instruction.set_alignment(16);
        }
        Ok(slot)
    }

    /// A stack slot with its first value.
    pub(crate) fn variable(&self, initial: impl BasicValue<'c>, name: &str) -> Emitted<Ptr<'c>> {
        let slot = self.slot(initial.as_basic_value_enum().get_type(), name)?;
        self.hoist(|ir| ir.store(slot, initial.as_basic_value_enum()))?;
        Ok(slot)
    }

    /// Ends the two blocks at the start, with `body` behind them.
    pub(crate) fn close_setup(&self, body: Block<'c>) -> Emitted<()> {
        self.enter(self.entry);
        self.jump(self.setup)?;
        self.enter(self.setup);
        self.jump(body)
    }

    /// The address `offset` bytes behind another.
    pub(crate) fn at(&self, base: Ptr<'c>, offset: usize, name: &str) -> Emitted<Ptr<'c>> {
        if offset == 0 {
            return Ok(base);
        }
        self.element(self.i8, base, self.word(offset as u64), name)
    }

    /// The address of an element of an array.
    pub(crate) fn element(
        &self,
        ty: impl BasicType<'c>,
        base: Ptr<'c>,
        index: Int<'c>,
        name: &str,
    ) -> Emitted<Ptr<'c>> {
        // SAFETY: the element is within its object: columns, outputs, tables and slots are as large as the contract
        // of `Kernel::run` and the table layout say, and indices stay below those sizes.
        Ok(unsafe { self.b.build_in_bounds_gep(ty, base, &[index], name)? })
    }

    /// The address of a constant of the module, which lives as long as the code; made once under its name.
    pub(crate) fn constant_in_memory<V: BasicValue<'c>>(&self, name: &str, initial: impl FnOnce() -> V) -> Ptr<'c> {
        let global = self.module.get_global(name).unwrap_or_else(|| {
            let initial = initial();
            let global = self.module.add_global(initial.as_basic_value_enum().get_type(), None, name);
            global.set_initializer(&initial);
            global.set_constant(true);
            global.set_linkage(Linkage::Private);
            global
        });
        global.as_pointer_value()
    }

    /// Loads a value; 16-byte values are only taken to be aligned to 8.
    pub(crate) fn load(&self, ty: impl BasicType<'c>, from: Ptr<'c>, name: &str) -> Emitted<Basic<'c>> {
        let value = self.b.build_load(ty, from, name)?;
        if let Some(instruction) = value.as_instruction_value() {
            self.align(instruction, value.get_type());
        }
        Ok(value)
    }

    /// Loads a 64-bit integer.
    pub(crate) fn load_word(&self, from: Ptr<'c>, name: &str) -> Emitted<Int<'c>> {
        Ok(self.load(self.i64, from, name)?.into_int_value())
    }

    /// Loads an address.
    pub(crate) fn load_ptr(&self, from: Ptr<'c>, name: &str) -> Emitted<Ptr<'c>> {
        Ok(self.load(self.ptr, from, name)?.into_pointer_value())
    }

    /// Loads an integer that others change meanwhile; aligned to its size.
    pub(crate) fn load_atomic(
        &self,
        ty: IntType<'c>,
        from: Ptr<'c>,
        ordering: AtomicOrdering,
        name: &str,
    ) -> Emitted<Int<'c>> {
        let value = self.b.build_load(ty, from, name)?.into_int_value();
        if let Some(instruction) = value.as_instruction() {
            let size = ty.get_bit_width() / 8;
            // Fails only for instructions that access no memory, which this does.
            let _ = instruction.set_alignment(size);
            let _ = instruction.set_atomic_ordering(ordering);
        }
        Ok(value)
    }

    /// Loads from an input column, which does not change during a run.
    pub(crate) fn load_input(&self, ty: impl BasicType<'c>, from: Ptr<'c>, name: &str) -> Emitted<Basic<'c>> {
        let value = self.load(ty, from, name)?;
        if let Some(instruction) = value.as_instruction_value() {
            self.annotate(instruction, self.context.metadata_node(&[]), "invariant.load");
            self.scope(instruction, 0);
        }
        Ok(value)
    }

    /// Stores a value.
    pub(crate) fn store(&self, to: Ptr<'c>, value: Basic<'c>) -> Emitted<()> {
        let instruction = self.b.build_store(to, value)?;
        self.align(instruction, value.get_type());
        Ok(())
    }

    /// Stores a value of an output.
    pub(crate) fn store_output(&self, output: usize, to: Ptr<'c>, value: Basic<'c>) -> Emitted<()> {
        let instruction = self.b.build_store(to, value)?;
        self.align(instruction, value.get_type());
        self.scope(instruction, output + 1);
        Ok(())
    }

    fn align(&self, instruction: InstructionValue<'c>, ty: BasicTypeEnum<'c>) {
        if ty == self.i128.into() {
            // Fails only for instructions that access no memory, which these do.
            let _ = instruction.set_alignment(8);
        }
    }

    fn annotate(&self, instruction: InstructionValue<'c>, node: MetadataValue<'c>, kind: &str) {
        // Fails only when the node is not one.
        let _ = instruction.set_metadata(node, self.context.get_kind_id(kind));
    }

    /// Says which region an access is in, and that it is in no other.
    fn scope(&self, instruction: InstructionValue<'c>, number: usize) {
        self.annotate(instruction, self.context.metadata_node(&[self.scopes[number].into()]), "alias.scope");
        let others: Vec<BasicMetadataValueEnum> =
            self.scopes.iter().enumerate().filter(|&(n, _)| n != number).map(|(_, &scope)| scope.into()).collect();
        self.annotate(instruction, self.context.metadata_node(&others), "noalias");
    }

    /// The address in a field of a struct.
    pub(crate) fn load_field(&self, base: Ptr<'c>, offset: usize, name: &str) -> Emitted<Ptr<'c>> {
        self.load_ptr(self.at(base, offset, name)?, name)
    }

    /// Calls a function of the host that gives nothing back.
    pub(crate) fn call_back(&self, function: Ptr<'c>, arguments: &[Basic<'c>]) -> Emitted<()> {
        let types: Vec<BasicMetadataTypeEnum> = arguments.iter().map(|a| a.get_type().into()).collect();
        let arguments: Vec<BasicMetadataValueEnum> = arguments.iter().map(|&a| a.into()).collect();
        let ty = self.context.void_type().fn_type(&types, false);
        self.b.build_indirect_call(ty, function, &arguments, "")?;
        Ok(())
    }

    /// Adds to a counter in a stack slot.
    pub(crate) fn increase(&self, counter: Ptr<'c>, by: Int<'c>) -> Emitted<()> {
        let old = self.load_word(counter, "old")?;
        let new = self.b.build_int_add(old, by, "new")?;
        self.store(counter, new.into())
    }

    /// Splits 128 bits into low and high word.
    pub(crate) fn halves(&self, wide: Int<'c>) -> Emitted<(Int<'c>, Int<'c>)> {
        let low = self.b.build_int_truncate(wide, self.i64, "low")?;
        let shifted = self.b.build_right_shift(wide, self.constant(self.i128, 64), false, "shifted")?;
        Ok((low, self.b.build_int_truncate(shifted, self.i64, "high")?))
    }

    /// The inverse of [`Ir::halves`].
    pub(crate) fn join(&self, low: Int<'c>, high: Int<'c>, name: &str) -> Emitted<Int<'c>> {
        let low = self.b.build_int_z_extend(low, self.i128, "low.wide")?;
        let high = self.b.build_int_z_extend(high, self.i128, "high.wide")?;
        let shifted = self.b.build_left_shift(high, self.constant(self.i128, 64), "high.shifted")?;
        Ok(self.b.build_or(low, shifted, name)?)
    }

    /// Integer comparison.
    pub(crate) fn compare(&self, predicate: IntPredicate, a: Int<'c>, b: Int<'c>, name: &str) -> Emitted<Int<'c>> {
        Ok(self.b.build_int_compare(predicate, a, b, name)?)
    }

    /// Chooses one of two values.
    pub(crate) fn select(&self, condition: Int<'c>, a: Basic<'c>, b: Basic<'c>, name: &str) -> Emitted<Basic<'c>> {
        Ok(self.b.build_select(condition, a, b, name)?)
    }

    /// [`Ir::select`] of addresses by a condition that a processor cannot guess: never made a branch.
    pub(crate) fn select_blindly(&self, condition: Int<'c>, a: Ptr<'c>, b: Ptr<'c>, name: &str) -> Emitted<Ptr<'c>> {
        let selected = self.select(condition, a.into(), b.into(), name)?;
        if let Some(instruction) = selected.as_instruction_value() {
            self.annotate(instruction, self.context.metadata_node(&[]), "unpredictable");
        }
        Ok(selected.into_pointer_value())
    }

    /// The value of the block that control came from.
    pub(crate) fn merge(&self, incoming: &[(Basic<'c>, Block<'c>)], name: &str) -> Emitted<Basic<'c>> {
        let phi = self.b.build_phi(incoming[0].0.get_type(), name)?;
        for (value, block) in incoming {
            phi.add_incoming(&[(value, *block)]);
        }
        Ok(phi.as_basic_value())
    }

    /// Declares a function of the runtime: `i32 (context, arguments, result)`.
    pub(crate) fn declare_runtime(&self, symbol: &str) -> FunctionValue<'c> {
        let ty = self.i32.fn_type(&[self.ptr.into(), self.ptr.into(), self.ptr.into()], false);
        self.declare(symbol, ty, None)
    }

    /// Declares a support function.
    pub(crate) fn declare_support(&self, symbol: &str, parameters: &[Word], result: Word) -> FunctionValue<'c> {
        let parameters: Vec<_> = parameters.iter().filter_map(|&w| self.word_type(w)).map(Into::into).collect();
        let ty = match self.word_type(result) {
            Some(result) => result.fn_type(&parameters, false),
            None => self.context.void_type().fn_type(&parameters, false),
        };
        let memory = if result == Word::Nothing { MEMORY_ARGUMENTS } else { MEMORY_READ };
        self.declare(symbol, ty, Some(memory))
    }

    fn word_type(&self, word: Word) -> Option<BasicTypeEnum<'c>> {
        Some(match word {
            Word::Int => self.i64.into(),
            Word::Int32 => self.i32.into(),
            Word::Double => self.f64.into(),
            Word::Single => self.context.f32_type().into(),
            Word::Out => self.ptr.into(),
            Word::Nothing => return None,
        })
    }

    fn declare(&self, symbol: &str, ty: inkwell::types::FunctionType<'c>, memory: Option<u64>) -> FunctionValue<'c> {
        if let Some(function) = self.module.get_function(symbol) {
            return function;
        }
        let function = self.module.add_function(symbol, ty, Some(Linkage::External));
        self.attribute(function, "nounwind", 0);
        if let Some(effects) = memory {
            self.attribute(function, "willreturn", 0);
            self.attribute(function, "memory", effects);
        }
        function
    }

    /// Sets an attribute of a function.
    pub(crate) fn attribute(&self, function: FunctionValue<'c>, name: &str, value: u64) {
        let kind = Attribute::get_named_enum_kind_id(name);
        function.add_attribute(AttributeLoc::Function, self.context.create_enum_attribute(kind, value));
    }

    /// Calls an LLVM intrinsic overloaded on `types`.
    pub(crate) fn intrinsic(
        &self,
        intrinsic: &str,
        types: &[BasicTypeEnum<'c>],
        arguments: &[BasicMetadataValueEnum<'c>],
        name: &str,
    ) -> Emitted<Basic<'c>> {
        self.result(self.declared(intrinsic, types)?, arguments, name)
    }

    fn declared(&self, intrinsic: &str, types: &[BasicTypeEnum<'c>]) -> Emitted<FunctionValue<'c>> {
        Intrinsic::find(intrinsic)
            .and_then(|i| i.get_declaration(&self.module, types))
            .ok_or_else(|| JitError::Generation(format!("LLVM has no {intrinsic}")))
    }

    /// Brings the cache line of an element into the first cache. The element need not exist.
    pub(crate) fn prefetch(&self, ty: impl BasicType<'c>, base: Ptr<'c>, index: Int<'c>) -> Emitted<()> {
        // SAFETY: the address is not said to be within an object, and nothing is read from it.
        let address = unsafe { self.b.build_gep(ty, base, &[index], "ahead")? };
        let function = self.declared("llvm.prefetch", &[self.ptr.into()])?;
        // To be read, kept in all caches, and data.
        let [read, all, data] = [0, 3, 1].map(|hint| self.constant(self.i32, hint).into());
        self.b.build_call(function, &[address.into(), read, all, data], "")?;
        Ok(())
    }

    /// Calls a function and gives its result.
    pub(crate) fn result(
        &self,
        function: FunctionValue<'c>,
        arguments: &[BasicMetadataValueEnum<'c>],
        name: &str,
    ) -> Emitted<Basic<'c>> {
        self.b
            .build_call(function, arguments, name)?
            .try_as_basic_value()
            .basic()
            .ok_or_else(|| JitError::Generation(format!("{name} has no result")))
    }
}
