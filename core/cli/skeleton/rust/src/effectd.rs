//! effectd/plugin.h in Rust, as far as this plugin needs it: the same structs in the same order, and nothing to link.
//! More of it is added by the header: append to `Host` up to the function you want, never leave one out.

use std::marker::PhantomData;
use std::mem::size_of;
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null;

const ABI_MAJOR: u32 = 1;
const ABI_MINOR: u32 = 0;
const KEY_MAX: usize = 512;

#[repr(i32)]
#[derive(Clone, Copy)]
#[allow(dead_code)]
pub enum Verdict {
    Ok = 0,
    Ignore = 1,
    Retry = 2,
    Reject = 3,
    Broken = 4,
}

#[repr(u32)]
#[derive(Clone, Copy)]
#[allow(dead_code)]
pub enum Rows {
    Any = 0,
    One = 1,
    Some = 2,
    Each = 3,
    New = 4,
    Newer = 5,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Str {
    data: *const u8,
    len: usize,
}

const ABSENT: Str = Str { data: null(), len: 0 };

#[repr(C)]
union ValueAs {
    number: i64,
    data: *const u8,
}

/// A statement's argument. Bytes that it points to are copied by `exec`.
#[repr(C)]
pub struct Value<'a> {
    kind: u32,
    reserved: u32,
    value: ValueAs,
    len: usize,
    lives: PhantomData<&'a [u8]>,
}

const INT8: u32 = 4;
const TEXT: u32 = 5;
const NUMERIC: u32 = 7;

impl<'a> Value<'a> {
    pub fn int8(number: i64) -> Value<'a> {
        Value { kind: INT8, reserved: 0, value: ValueAs { number }, len: 0, lives: PhantomData }
    }

    pub fn text(text: &'a [u8]) -> Value<'a> {
        Value::bytes(TEXT, text)
    }

    /// Decimal text, exact.
    pub fn numeric(digits: &'a [u8]) -> Value<'a> {
        Value::bytes(NUMERIC, digits)
    }

    fn bytes(kind: u32, bytes: &'a [u8]) -> Value<'a> {
        Value { kind, reserved: 0, value: ValueAs { data: bytes.as_ptr() }, len: bytes.len(), lives: PhantomData }
    }
}

#[repr(C)]
pub struct Json {
    opaque: [u8; 0],
}

const JSON_INTEGER: u32 = 3;
const JSON_REAL: u32 = 4;

#[repr(C)]
struct Host {
    abi_major: u32,
    abi_minor: u32,
    size: usize,
    property: *const c_void,
    header: *const c_void,
    header_int64: *const c_void,
    timestamp_us: *const c_void,
    redelivered: *const c_void,
    attempt: *const c_void,
    json: extern "C" fn(*const Message) -> *const Json,
    json_error: *const c_void,
    json_member: extern "C" fn(*const Json, *const c_char) -> *const Json,
    json_element: *const c_void,
    json_size: *const c_void,
    json_kind: extern "C" fn(*const Json) -> u32,
    json_int64: extern "C" fn(*const Json, *mut i64) -> bool,
    json_bool: *const c_void,
    json_text: extern "C" fn(*const Json, *mut Str) -> bool,
    json_source: extern "C" fn(*const Message, *const Json) -> Str,
    say: extern "C" fn(*mut Call, *const c_char),
    exec: extern "C" fn(*mut Call, u32, *const Value, usize),
}

/// Lives until the call returns, with all that is borrowed from it.
#[repr(C)]
pub struct Message {
    host: *const Host,
}

impl Message {
    fn host(&self) -> &Host {
        unsafe { &*self.host }
    }

    fn member(&self, name: &str) -> *const Json {
        let name = terminated(name);
        (self.host().json_member)((self.host().json)(self), name.as_ptr() as *const c_char)
    }

    fn bytes(&self, s: Str) -> Option<&[u8]> {
        if s.data.is_null() {
            return None;
        }
        Some(unsafe { std::slice::from_raw_parts(s.data, s.len) })
    }

    /// A text member of the body's object; UTF-8.
    pub fn text(&self, name: &str) -> Option<&[u8]> {
        let mut s = ABSENT;
        (self.host().json_text)(self.member(name), &mut s);
        self.bytes(s)
    }

    /// A whole number; None for 12.0 and "12".
    pub fn int64(&self, name: &str) -> Option<i64> {
        let mut n = 0;
        (self.host().json_int64)(self.member(name), &mut n).then(|| n)
    }

    /// A number as it is written in the body, with every digit.
    pub fn numeric(&self, name: &str) -> Option<&[u8]> {
        let node = self.member(name);
        match (self.host().json_kind)(node) {
            JSON_INTEGER | JSON_REAL => self.bytes((self.host().json_source)(self, node)),
            _ => None,
        }
    }
}

#[repr(C)]
pub struct Key {
    host: *const Host,
    len: usize,
    /// The id of the row that messages share: batches never deadlock on it.
    pub lock_order: i64,
    has_event_time: bool,
    event_time_us: i64,
    text: [u8; KEY_MAX + 1],
}

impl Key {
    /// Too long a key is refused by effectd, never cut.
    pub fn set(&mut self, text: &[u8]) -> Verdict {
        self.len = text.len();
        if text.len() <= KEY_MAX {
            self.text[..text.len()].copy_from_slice(text);
        }
        Verdict::Ok
    }
}

#[repr(C)]
pub struct Call {
    host: *const Host,
    instance: *mut c_void,
}

impl Call {
    pub fn reject(&mut self, why: &str) -> Verdict {
        self.say(why);
        Verdict::Reject
    }

    pub fn exec(&mut self, statement: u32, values: &[Value]) {
        unsafe { ((*self.host).exec)(self, statement, values.as_ptr(), values.len()) }
    }

    fn say(&mut self, text: &str) {
        let text = terminated(text);
        unsafe { ((*self.host).say)(self, text.as_ptr() as *const c_char) }
    }
}

fn terminated(text: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
    bytes.push(0);
    bytes
}

#[repr(C)]
pub struct Statement {
    name: *const c_char,
    sql: *const c_char,
    rows: Rows,
    otherwise: u32,
    option: *const c_char,
}

unsafe impl Sync for Statement {}

impl Statement {
    /// Both texts end with \0.
    pub const fn new(name: &'static str, sql: &'static str, rows: Rows) -> Statement {
        Statement { name: name.as_ptr() as _, sql: sql.as_ptr() as _, rows, otherwise: 0, option: null() }
    }
}

type KeyFunction = extern "C" fn(*mut Call, *const Message, *mut Key) -> Verdict;
type ApplyFunction = extern "C" fn(*mut Call, *const Message) -> Verdict;

#[repr(C)]
pub struct Plugin {
    abi_major: u32,
    abi_minor: u32,
    size: u32,
    statement_size: u32,
    option_size: u32,
    statement_count: u32,
    option_count: u32,
    statements: *const Statement,
    options: *const c_void,
    consumer: *const c_char,
    version: *const c_char,
    description: *const c_char,
    configure: *const c_void,
    destroy: *const c_void,
    key: KeyFunction,
    apply: ApplyFunction,
    apply_batch: *const c_void,
    described: *const c_void,
}

unsafe impl Sync for Plugin {}

impl Plugin {
    pub const fn new(
        consumer: &'static str,
        version: &'static str,
        statements: &'static [Statement],
        key: KeyFunction,
        apply: ApplyFunction,
    ) -> Plugin {
        Plugin {
            abi_major: ABI_MAJOR,
            abi_minor: ABI_MINOR,
            size: size_of::<Plugin>() as u32,
            statement_size: size_of::<Statement>() as u32,
            option_size: 0,
            statement_count: statements.len() as u32,
            option_count: 0,
            statements: statements.as_ptr(),
            options: null(),
            consumer: consumer.as_ptr() as _,
            version: version.as_ptr() as _,
            description: null(),
            configure: null(),
            destroy: null(),
            key,
            apply,
            apply_batch: null(),
            described: null(),
        }
    }
}

/// A panic must not leave the plugin: it becomes a verdict.
pub fn guarded(call: &mut Call, body: impl FnOnce(&mut Call) -> Verdict) -> Verdict {
    let shared: *mut Call = call;
    match catch_unwind(AssertUnwindSafe(|| body(unsafe { &mut *shared }))) {
        Ok(verdict) => verdict,
        Err(_) => {
            call.say("it panicked");
            Verdict::Broken
        }
    }
}

/// The descriptor of two functions: key(&mut Call, &Message, &mut Key) and apply(&mut Call, &Message).
macro_rules! plugin {
    ($consumer:literal, $version:literal, $statements:expr, $key:path, $apply:path) => {{
        extern "C" fn plugin_key(call: *mut Call, msg: *const Message, key: *mut Key) -> Verdict {
            let (call, msg, key) = unsafe { (&mut *call, &*msg, &mut *key) };
            effectd::guarded(call, |call| $key(call, msg, key))
        }
        extern "C" fn plugin_apply(call: *mut Call, msg: *const Message) -> Verdict {
            let (call, msg) = unsafe { (&mut *call, &*msg) };
            effectd::guarded(call, |call| $apply(call, msg))
        }
        Plugin::new($consumer, $version, $statements, plugin_key, plugin_apply)
    }};
}
pub(crate) use plugin;
