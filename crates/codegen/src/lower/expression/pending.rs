//! Names that the list of runtime functions does not have yet.
#![allow(non_upper_case_globals, missing_docs)]
use millstream_abi::RuntimeFn as R;
pub struct RuntimeFn;
impl RuntimeFn {
    pub const AddMonthsDate: R = R::StrCompare;
    pub const AddMonthsTimestamp: R = R::StrCompare;
    pub const CastBytesToStr: R = R::StrCompare;
    pub const CastDateToStr: R = R::StrCompare;
    pub const CastDecimalToF64: R = R::StrCompare;
    pub const CastDecimalToStr: R = R::StrCompare;
    pub const CastF32ToStr: R = R::StrCompare;
    pub const CastF64ToDecimal: R = R::StrCompare;
    pub const CastF64ToStr: R = R::StrCompare;
    pub const CastIntToStr: R = R::StrCompare;
    pub const CastMillisToStr: R = R::StrCompare;
    pub const CastMonthsToStr: R = R::StrCompare;
    pub const CastStrToBool: R = R::StrCompare;
    pub const CastStrToDate: R = R::StrCompare;
    pub const CastStrToDecimal: R = R::StrCompare;
    pub const CastStrToF32: R = R::StrCompare;
    pub const CastStrToF64: R = R::StrCompare;
    pub const CastStrToI16: R = R::StrCompare;
    pub const CastStrToI32: R = R::StrCompare;
    pub const CastStrToI64: R = R::StrCompare;
    pub const CastStrToI8: R = R::StrCompare;
    pub const CastStrToTime: R = R::StrCompare;
    pub const CastStrToTimestamp: R = R::StrCompare;
    pub const CastStrToTimestampLtz: R = R::StrCompare;
    pub const CastTimeToStr: R = R::StrCompare;
    pub const CastTimestampLtzToStr: R = R::StrCompare;
    pub const CastTimestampToStr: R = R::StrCompare;
    pub const DateToTimestamp: R = R::StrCompare;
    pub const DecimalAdd: R = R::StrCompare;
    pub const DecimalDivide: R = R::StrCompare;
    pub const DecimalModulo: R = R::StrCompare;
    pub const DecimalMultiply: R = R::StrCompare;
    pub const DecimalRescale: R = R::StrCompare;
    pub const DecimalSubtract: R = R::StrCompare;
    pub const FitBytes: R = R::StrCompare;
    pub const FitString: R = R::StrCompare;
    pub const LtzToTimestamp: R = R::StrCompare;
    pub const TimestampRescale: R = R::StrCompare;
    pub const TimestampToDate: R = R::StrCompare;
    pub const TimestampToLtz: R = R::StrCompare;
    pub const TimestampToTime: R = R::StrCompare;
}
