-- Refuses fields that the API does not define, before the transcoder, which would drop them silently.
--
-- KNOWN, prepended by body_schema.py, has for each pattern of a path and verb the fields that its body may have: a table of names;
-- the value is the same for its content, "any" for any content, `values` with the fields of a map's values, `list` with
-- those of a list's elements: the transcoder would take one text for a list of one.

local DEPTH_MAX = 64

local function fail(text)
  error({refusal = text}, 0)
end


-- Position of the next character that is not white space.
local function skip(text, at)
  return text:find("[^ \t\r\n]", at) or #text + 1
end

-- Position behind the string that begins at `at`, and its content.
local function string_at(text, at)
  local first = at + 1
  while true do
    local found = text:find('["\\]', at + 1)
    if not found then fail("the body is not JSON: a string is not closed") end
    if text:byte(found) == 34 then return found + 1, text:sub(first, found - 1) end
    at = found + 1
  end
end

local value_at

local function inner_of(known, name)
  if known == "any" then return "any" end
  if known.values then return known.values end
  return known.fields[name]
end

local function object_at(text, at, known, path, depth)
  local seen = {}
  at = skip(text, at + 1)
  if text:sub(at, at) == "}" then return at + 1 end
  while true do
    if text:sub(at, at) ~= '"' then fail("the body is not JSON: the name of a field is missing") end
    local name
    at, name = string_at(text, at)
    local inner = inner_of(known, name)
    if inner == nil then fail(path .. name:sub(1, 80) .. ": there is no such field") end
    if seen[name] then fail(path .. name:sub(1, 80) .. ": it is given twice") end
    seen[name] = true
    at = skip(text, at)
    if text:sub(at, at) ~= ":" then fail("the body is not JSON: a colon is missing") end
    at = skip(text, value_at(text, skip(text, at + 1), inner, path .. name:sub(1, 80) .. ".", depth + 1))
    local mark = text:sub(at, at)
    if mark == "}" then return at + 1 end
    if mark ~= "," then fail("the body is not JSON: a comma is missing") end
    at = skip(text, at + 1)
  end
end

local function list_at(text, at, known, path, depth)
  at = skip(text, at + 1)
  if text:sub(at, at) == "]" then return at + 1 end
  while true do
    at = skip(text, value_at(text, at, known, path, depth + 1))
    local mark = text:sub(at, at)
    if mark == "]" then return at + 1 end
    if mark ~= "," then fail("the body is not JSON: a comma is missing") end
    at = skip(text, at + 1)
  end
end

function value_at(text, at, known, path, depth)
  if depth > DEPTH_MAX then fail("the JSON is nested too deeply") end
  local mark = text:sub(at, at)
  if known.list then
    if mark ~= "[" then fail(path:sub(1, -2) .. ": write a list such as [\"echo\", \"hello\"], not one value") end
    return list_at(text, at, known.list, path, depth)
  end
  if mark == "[" and known ~= "any" then fail(path:sub(1, -2) .. ": write one value, not a list") end
  if mark == "{" then
    if known == "plain" then fail(path:sub(1, -2) .. ": write one value, not an object") end
    return object_at(text, at, known, path, depth)
  end
  if mark == "[" then return list_at(text, at, known, path, depth) end
  if mark == '"' then return (string_at(text, at)) end
  if known ~= "any" and text:sub(at, at + 3) == "null" then fail(path:sub(1, -2) .. ": null is not allowed; leave the field out") end
  local found = text:find("[%]},%s]", at)
  if found == at then fail("the body is not JSON: a value is missing") end
  return found or #text + 1
end

local function known_for(method, path)
  for _, one in ipairs(KNOWN) do
    if one.method == method and path:find(one.pattern) then return one.body, one.needed end
  end
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local method = headers:get(":method")
  if method ~= "POST" and method ~= "PATCH" then return end
  local kind = headers:get("content-type") or ""
  if kind:find("^application/grpc") then return end
  local path = (headers:get(":path") or ""):gsub("%?.*$", "")
  local known, needed = known_for(method, path)
  if known == nil then return end
  local body = handle:body()
  if body == nil or body:length() == 0 then
    if needed then handle:respond({[":status"] = "400"}, "the body is missing: write JSON") end
    return
  end
  local text = body:getBytes(0, body:length())
  local well, trouble = pcall(function()
    local at = skip(text, value_at(text, skip(text, 1), known, "", 0))
    if at <= #text then fail("the body is not JSON: there is text after its end") end
  end)
  if not well then
    local text = type(trouble) == "table" and trouble.refusal or "the body cannot be read"
    handle:respond({[":status"] = "400"}, (text:gsub("[%c\128-\255]", "?")))
  end
end
