//! Registers of the interpreter, and the selection of lanes that an operation works on.

use millstream_abi::{Phys, Str};

/// Runs an expression with `$T` bound to the lane type of a [`Phys`], which is one of those listed, if any are.
macro_rules! with_type {
    ($phys:expr, $T:ident => $body:expr) => {
        with_type!($phys, $T => $body; Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, I128 i128, F32 f32, F64 f64, Str Str)
    };
    ($phys:expr, $T:ident => $body:expr; $($variant:ident $ty:ty),* $(; else $otherwise:expr)?) => {
        match $phys {
            $(Phys::$variant => {
                type $T = $ty;
                $body
            })*
            $(_ => $otherwise,)?
        }
    };
}
pub(super) use with_type;

/// The same for a type of numbers.
macro_rules! with_number {
    ($phys:expr, $T:ident => $body:expr) => {
        with_type!($phys, $T => $body; I8 i8, I16 i16, I32 i32, I64 i64, I128 i128, F32 f32, F64 f64;
            else unreachable!("the verifier has checked the types"))
    };
}
pub(super) use with_number;

/// The values of one program value in every row of a block.
#[derive(Debug)]
pub(super) enum Lanes {
    Bool(Vec<bool>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Str(Vec<Str>),
}

impl Lanes {
    /// Zeroed lanes.
    pub(super) fn new(phys: Phys, rows: usize) -> Lanes {
        with_type!(phys, T => T::lanes(vec![T::default(); rows]))
    }

    /// Stands in the place of lanes that are being written.
    pub(super) const fn taken() -> Lanes {
        Lanes::Bool(Vec::new())
    }
}

/// A type of lane.
pub(super) trait Lane: Copy + Default {
    /// Lanes of this type.
    fn lanes(values: Vec<Self>) -> Lanes;
    /// The lanes as this type, which they have.
    fn slice(lanes: &Lanes) -> &[Self];
    /// The lanes as this type, to write.
    fn slice_mut(lanes: &mut Lanes) -> &mut [Self];
}

macro_rules! lane_types {
    ($($ty:ty = $variant:ident),*) => {$(
        impl Lane for $ty {
            fn lanes(values: Vec<$ty>) -> Lanes {
                Lanes::$variant(values)
            }

            fn slice(lanes: &Lanes) -> &[$ty] {
                match lanes {
                    Lanes::$variant(values) => values,
                    _ => unreachable!("the verifier has checked the types"),
                }
            }

            fn slice_mut(lanes: &mut Lanes) -> &mut [$ty] {
                match lanes {
                    Lanes::$variant(values) => values,
                    _ => unreachable!("the verifier has checked the types"),
                }
            }
        }
    )*};
}
lane_types!(bool = Bool, i8 = I8, i16 = I16, i32 = I32, i64 = I64, i128 = I128, f32 = F32, f64 = F64, Str = Str);

/// Lanes of a block, ascending.
#[derive(Debug, Clone)]
pub(super) enum Selection {
    /// This many lanes, from the first on.
    All(usize),
    /// These lanes.
    Some(Vec<u32>),
}

impl Selection {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Selection::All(rows) => *rows == 0,
            Selection::Some(lanes) => lanes.is_empty(),
        }
    }

    /// Number of lanes.
    pub(super) fn len(&self) -> usize {
        match self {
            Selection::All(rows) => *rows,
            Selection::Some(lanes) => lanes.len(),
        }
    }

    /// Cuts off the lanes from `limit` on.
    pub(super) fn truncate(&mut self, limit: usize) {
        match self {
            Selection::All(rows) => *rows = limit.min(*rows),
            Selection::Some(lanes) => {
                while lanes.last().is_some_and(|&lane| lane as usize >= limit) {
                    lanes.pop();
                }
            }
        }
    }

    /// Calls `visit` on every lane, ascending.
    #[inline]
    pub(super) fn each(&self, mut visit: impl FnMut(usize)) {
        match self {
            Selection::All(rows) => (0..*rows).for_each(visit),
            Selection::Some(lanes) => lanes.iter().for_each(|&lane| visit(lane as usize)),
        }
    }

    /// The first lane for which `condition` is TRUE.
    pub(super) fn first(&self, condition: &[bool]) -> Option<usize> {
        match self {
            Selection::All(rows) => condition[..*rows].iter().position(|&c| c),
            Selection::Some(lanes) => lanes.iter().map(|&l| l as usize).find(|&lane| condition[lane]),
        }
    }

    /// The lanes for which `condition` is TRUE, and the others.
    pub(super) fn split(&self, condition: &[bool]) -> (Selection, Selection) {
        if let Selection::All(rows) = *self {
            let count = condition[..rows].iter().filter(|&&c| c).count();
            if count == rows {
                return (Selection::All(rows), Selection::All(0));
            }
            if count == 0 {
                return (Selection::All(0), Selection::All(rows));
            }
        }
        let (mut yes, mut no) = (Vec::with_capacity(self.len()), Vec::new());
        self.each(|lane| if condition[lane] { yes.push(lane as u32) } else { no.push(lane as u32) });
        (Selection::Some(yes), Selection::Some(no))
    }
}
