//! Registers of the interpreter, and the selection of lanes that an operation works on.

use millstream_abi::{Phys, Str};

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
        match phys {
            Phys::Bool => Lanes::Bool(vec![false; rows]),
            Phys::I8 => Lanes::I8(vec![0; rows]),
            Phys::I16 => Lanes::I16(vec![0; rows]),
            Phys::I32 => Lanes::I32(vec![0; rows]),
            Phys::I64 => Lanes::I64(vec![0; rows]),
            Phys::I128 => Lanes::I128(vec![0; rows]),
            Phys::F32 => Lanes::F32(vec![0.0; rows]),
            Phys::F64 => Lanes::F64(vec![0.0; rows]),
            Phys::Str => Lanes::Str(vec![Str::EMPTY; rows]),
        }
    }

    /// Stands in the place of lanes that are being written.
    pub(super) const fn taken() -> Lanes {
        Lanes::Bool(Vec::new())
    }
}

/// A type of lane.
pub(super) trait Lane: Copy {
    /// The lanes as this type, which they have.
    fn slice(lanes: &Lanes) -> &[Self];
    /// The lanes as this type, to write.
    fn slice_mut(lanes: &mut Lanes) -> &mut [Self];
}

macro_rules! lane_types {
    ($($ty:ty = $variant:ident),*) => {$(
        impl Lane for $ty {
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

/// Runs an expression with `$T` bound to the lane type of a [`Phys`].
macro_rules! with_type {
    ($phys:expr, $T:ident => $body:expr) => {
        match $phys {
            Phys::Bool => {
                type $T = bool;
                $body
            }
            Phys::I8 => {
                type $T = i8;
                $body
            }
            Phys::I16 => {
                type $T = i16;
                $body
            }
            Phys::I32 => {
                type $T = i32;
                $body
            }
            Phys::I64 => {
                type $T = i64;
                $body
            }
            Phys::I128 => {
                type $T = i128;
                $body
            }
            Phys::F32 => {
                type $T = f32;
                $body
            }
            Phys::F64 => {
                type $T = f64;
                $body
            }
            Phys::Str => {
                type $T = Str;
                $body
            }
        }
    };
}
pub(super) use with_type;

/// Lanes of a block, ascending.
#[derive(Debug, Clone)]
pub(super) enum Selection {
    /// The first so many lanes.
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
