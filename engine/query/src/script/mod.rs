//! Users' functions in Lua, in a sandbox: no files, no clock, no chance, no way to load code; a bounded number of
//! instructions and bytes for each call, and a bounded time of the shard, because one instruction may copy a long
//! string. What one call leaves behind no other call sees.

mod value;

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use mlua::{HookTriggers, Lua, LuaOptions, StdLib, Table, VmState};
use types::{CqlType, FunctionDef};

/// Memory that one function may have, its code included.
const MEMORY_BYTES_MAX: usize = 4 << 20;
/// Instructions of one call: some tens of milliseconds of the shard.
const INSTRUCTIONS_MAX: u32 = 4_000_000;
/// How often the count is looked at.
const INSTRUCTIONS_STEP: u32 = 100;
/// What one call may take by the shard's clock; as long as nothing else on the shard gets its turn.
const CALL_NS_MAX: u64 = 50_000_000;

/// What the standard library has that is not to be had: what loads code or files, what shows addresses, what depends on
/// chance. `pairs` goes through the keys in an order of its own, because Lua's differs from process to process.
const PRELUDE: &str = r#"
local base_next, base_type, base_tostring, sort = next, type, tostring, table.sort
local rank = { boolean = 1, number = 2, string = 3 }
local function before(a, b)
    local x, y = rank[base_type(a)] or 4, rank[base_type(b)] or 4
    if x ~= y then return x < y end
    if x == 1 then return not a and b end
    if x == 4 then return false end
    return a < b
end
function pairs(t)
    local keys = {}
    for key in base_next, t do keys[#keys + 1] = key end
    sort(keys, before)
    local at = 0
    return function()
        at = at + 1
        local key = keys[at]
        if key ~= nil then return key, t[key] end
    end
end
function tostring(value)
    local kind = base_type(value)
    if kind == "table" or kind == "function" then return kind end
    return base_tostring(value)
end
local byte, library = string.byte, string
-- A pattern is matched in one go, by trying again: so many times the length for each repetition in it.
local function bounded(match)
    return function(subject, pattern, ...)
        subject, pattern = base_tostring(subject), base_tostring(pattern)
        local repetitions, steps = 1, 1
        for at = 1, #pattern do
            local c = byte(pattern, at)
            if c == 42 or c == 43 or c == 45 or c == 63 or (c == 37 and byte(pattern, at + 1) == 98) then
                repetitions = repetitions + 1
            end
        end
        for _ = 1, repetitions do steps = steps * (#subject + 1) end
        if steps > 1e8 or repetitions > 8 then error("the pattern could take too long on a text of this length") end
        return match(subject, pattern, ...)
    end
end
for _, name in ipairs({ "find", "match", "gmatch", "gsub" }) do library[name] = bounded(library[name]) end
local base_error = error
function error(message, level) base_error(base_tostring(tostring(message)), level) end
-- What catches errors would catch the end of the call's time, too.
pcall, xpcall = nil
next, load, loadfile, loadstring, dofile, collectgarbage, require, print, warn = nil
rawget, rawset, rawequal, rawlen, getmetatable, setmetatable = nil
math.random, math.randomseed, string.dump, string.rep = nil
"#;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ScriptError {
    #[error("Language '{0}' is not supported")]
    Language(String),
    #[error("could not compile: {0}")]
    Compile(String),
    #[error("lua execution failed: {0}")]
    Run(String),
    /// A value that the result's type does not have.
    #[error("{0}")]
    Value(String),
}

/// One function, ready to be called.
pub(crate) struct Script {
    lua: Lua,
    function: mlua::Function,
    /// Where the call's global variables go.
    globals: Table,
    instructions: Rc<Cell<u32>>,
    /// When the call began.
    began_ns: Rc<Cell<u64>>,
    clock: fn() -> u64,
    arguments: Vec<CqlType>,
    returns: CqlType,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Script returning {}", self.returns)
    }
}

/// Without the stack, which is the sandbox's own for the most part.
fn first_line(error: &mlua::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_string()
}

fn is_lua_name(name: &str) -> bool {
    const WORDS: [&str; 22] = [
        "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil",
        "not", "or", "repeat", "return", "then", "true", "until", "while",
    ];
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !WORDS.contains(&name)
}

impl Script {
    /// `clock` gives nanoseconds.
    pub fn compile(def: &FunctionDef, clock: fn() -> u64) -> Result<Self, ScriptError> {
        if def.language != "lua" {
            return Err(ScriptError::Language(def.language.clone()));
        }
        let failed = |error: mlua::Error| ScriptError::Compile(first_line(&error));
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::UTF8;
        let lua = Lua::new_with(libraries, LuaOptions::new()).map_err(failed)?;
        lua.set_memory_limit(MEMORY_BYTES_MAX).map_err(failed)?;
        lua.load(PRELUDE).set_name("prelude").exec().map_err(failed)?;
        let instructions = Rc::new(Cell::new(0u32));
        let began_ns = Rc::new(Cell::new(0u64));
        let (counted, began) = (instructions.clone(), began_ns.clone());
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_STEP);
        lua.set_hook(triggers, move |_, _| {
            counted.set(counted.get() + INSTRUCTIONS_STEP);
            if counted.get() > INSTRUCTIONS_MAX || clock().saturating_sub(began.get()) > CALL_NS_MAX {
                return Err(mlua::Error::runtime("the function ran for too long"));
            }
            Ok(VmState::Continue)
        })
        .map_err(failed)?;
        // Global variables of a call lie in a table in front of the library, which is emptied after it.
        let globals = lua.create_table().map_err(failed)?;
        let library = lua.create_table().map_err(failed)?;
        library.set("__index", lua.globals()).map_err(failed)?;
        globals.set_metatable(Some(library)).map_err(failed)?;
        let names = def.arguments.iter().enumerate();
        let names: Vec<String> = names
            .map(|(at, (name, _))| if is_lua_name(name) { name.clone() } else { format!("argument_{}", at + 1) })
            .collect();
        // On one line with the body's first, so that lines in errors are the body's.
        let head = if names.is_empty() { String::new() } else { format!("local {} = ...; ", names.join(", ")) };
        let chunk = lua.load(format!("{head}{}", def.body)).set_name(&def.name).set_mode(mlua::ChunkMode::Text);
        let function = chunk.set_environment(globals.clone()).into_function().map_err(failed)?;
        Ok(Self {
            function,
            globals,
            instructions,
            began_ns,
            clock,
            arguments: def.argument_types().cloned().collect(),
            returns: def.returns.clone(),
            lua,
        })
    }

    /// Arguments and result in the binary forms of their types; `None` is null.
    pub fn call(&self, arguments: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>, ScriptError> {
        let failed = |error: mlua::Error| ScriptError::Run(first_line(&error));
        self.instructions.set(0);
        self.began_ns.set((self.clock)());
        let given = arguments.iter().zip(&self.arguments);
        let given = given.map(|(bytes, ty)| value::to_lua(&self.lua, ty, *bytes));
        let given: mlua::MultiValue = given.collect::<Result<_, _>>()?;
        let result = self.function.call::<mlua::Value>(given).map_err(failed);
        let result = result.and_then(|result| value::from_lua(&self.returns, &result));
        self.globals.clear().map_err(failed)?;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arguments: &[(&str, &str, &str)], returns: &str, body: &str) -> Result<String, String> {
        let parse = |ty: &str| CqlType::parse(ty).unwrap();
        let def = FunctionDef {
            keyspace: "ks".into(),
            name: "f".into(),
            arguments: arguments.iter().map(|(name, ty, _)| (name.to_string(), parse(ty))).collect(),
            called_on_null_input: true,
            returns: parse(returns),
            language: "lua".into(),
            body: body.into(),
        };
        let script = Script::compile(&def, || 0).map_err(|error| error.to_string())?;
        let values: Vec<Vec<u8>> = arguments.iter().map(|(_, ty, text)| parse(ty).from_text(text).unwrap()).collect();
        let values: Vec<Option<&[u8]>> = values.iter().map(|value| Some(value.as_slice())).collect();
        let result = script.call(&values).map_err(|error| error.to_string())?;
        Ok(result.map_or("null".to_string(), |bytes| def.returns.to_cql_literal(&bytes).unwrap()))
    }

    #[test]
    fn functions_run() {
        let ok = |arguments: &[(&str, &str, &str)], returns: &str, body: &str, expect: &str| {
            assert_eq!(run(arguments, returns, body).as_deref(), Ok(expect), "{body}");
        };
        ok(&[("a", "int", "41")], "int", "return a + 1", "42");
        ok(&[("a", "text", "x")], "text", "return a .. 'y'", "'xy'");
        ok(&[], "map<text, int>", "return {b = 2, a = 1}", "{'a': 1, 'b': 2}");
        ok(&[], "set<int>", "return {[3] = true, [1] = true}", "{1, 3}");
        ok(&[], "list<double>", "return {1, 2.5}", "[1.0, 2.5]");
        ok(&[], "tuple<int, text>", "return {1, nil}", "(1, null)");
        ok(&[], "text", "s = '' for k in pairs({c=1, a=1, b=1}) do s = s .. k end return s", "'abc'");
        ok(&[], "int", "return nil", "null");
        ok(&[], "text", "return ('a b c'):gsub('%s+', '')", "'abc'");
        ok(&[("d", "decimal", "1.5")], "decimal", "return d", "1.5");
        ok(&[("n", "varint", "5")], "varint", "return n * 2", "10");
        ok(
            &[("u", "uuid", "37f71aca-7dc2-383b-a706-72528af04d4f")],
            "text",
            "return u",
            "'37f71aca-7dc2-383b-a706-72528af04d4f'",
        );
    }

    #[test]
    fn the_sandbox_holds() {
        for body in [
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "return pcall(error)",
            "local function deep() return 1 + deep() end return deep()",
            "local t = {} for i = 1, 1000000000 do t[i] = {} end",
            "local s = 'x' while true do s = s .. s end",
            "return io.open('/etc/passwd')",
            "return os.time()",
            "return math.random()",
            "return load('return 1')()",
            "return require('os')",
            "error('no')",
            "return setmetatable({}, {})",
            "local s = 'a' for _ = 1, 15 do s = s .. s end return s:find('.-.-.-b')",
            "return function() end",
        ] {
            assert!(run(&[], "int", body).is_err(), "{body}");
        }
        assert!(run(&[], "int", "return (").is_err());
        assert!(run(&[], "tinyint", "return 300").is_err());
    }

    #[test]
    fn calls_do_not_see_each_other() {
        let body = "seen = (seen or 0) + 1 return seen";
        let def = FunctionDef {
            keyspace: "ks".into(),
            name: "f".into(),
            arguments: Vec::new(),
            called_on_null_input: true,
            returns: CqlType::Int,
            language: "lua".into(),
            body: body.into(),
        };
        let script = Script::compile(&def, || 0).unwrap();
        for _ in 0..2 {
            assert_eq!(script.call(&[]).unwrap(), Some(1i32.to_be_bytes().to_vec()));
        }
    }
}
