//! Calls of runtime functions: arguments in stack slots, a status back.

use super::ir::{Emitted, Ptr};
use super::{Emitter, runtime_symbol};
use inkwell::IntPredicate;
use millstream_abi::{CallStatus, ErrorKind, ExecContext, RuntimeFn};
use millstream_codegen::program::Call;
use std::mem::offset_of;

impl<'c> Emitter<'c, '_> {
    /// (argument slots, result slot); one array for all calls, since arguments are read before a call returns.
    fn call_slots(&mut self) -> Emitted<(Ptr<'c>, Ptr<'c>)> {
        if let Some(slots) = self.call_slots {
            return Ok(slots);
        }
        let most = RuntimeFn::ALL.iter().map(|f| f.arguments().len()).max().unwrap_or(0);
        let arguments = self.ir.slot(self.ir.i128.array_type(most as u32), "call.arguments")?;
        let slots = (arguments, self.ir.slot(self.ir.i128, "call.result")?);
        self.call_slots = Some(slots);
        Ok(slots)
    }

    /// `Statement::Call`
    pub(super) fn call(&mut self, call: &Call) -> Emitted<()> {
        let Call { result, valid, function, ref arguments, site } = *call;
        let (slots, out) = self.call_slots()?;
        let ir = &self.ir;
        for (number, &argument) in arguments.iter().enumerate() {
            let place = ir.at(slots, number * 16, "argument")?;
            ir.store(place, self.to_memory(self.value(argument), self.program.type_of(argument))?)?;
        }
        let functions = ir.load_field(self.context, offset_of!(ExecContext, functions), "functions")?;
        let body = ir.declare_runtime(&runtime_symbol(function));
        let arguments = [functions.into(), slots.into(), out.into()];
        let status = ir.result(body, &arguments, &format!("{result}.status"))?.into_int_value();
        let is = |status_value: CallStatus, name: &str| {
            ir.compare(IntPredicate::EQ, status, ir.constant(ir.i32, status_value as i128), name)
        };
        let failed = is(CallStatus::Error, "has_failed")?;
        self.stop_when(failed, ErrorKind::FunctionFailed as u32, site, &format!("{result}.{}", function.name()))?;
        let has_value = is(CallStatus::Value, &valid.to_string())?;
        let phys = function.result();
        let loaded = ir.load(ir.memory_type(phys), out, "result")?;
        let loaded = self.to_register(loaded, phys)?;
        let zero = ir.register_type(phys).const_zero();
        let value = ir.select(has_value, loaded, zero, &result.to_string())?;
        self.values.insert(result, value);
        self.values.insert(valid, has_value.into());
        Ok(())
    }
}
