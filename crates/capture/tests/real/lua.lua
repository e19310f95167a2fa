local Account = {}
Account.__index = Account
function Account.new(b) return setmetatable({balance = b, log = {}}, Account) end
function Account:add(n) self.balance = self.balance + n; self.log[#self.log + 1] = n end
local all = {}
for i = 1, 400 do all["a" .. i] = Account.new(i) end
for i = 1, 6000 do all["a" .. (i % 400 + 1)]:add(i) end
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local words = {}
for w in ("the quick brown fox jumps over the lazy dog "):rep(40):gmatch("%a+") do words[w] = (words[w] or 0) + 1 end
local co = coroutine.wrap(function() for i = 1, 300 do coroutine.yield(i) end end)
local s = 0
for i = 1, 300 do s = s + co() end
local t = {}
for i = 1, 3000 do t[i] = (i * 7919) % 3001 end
table.sort(t)
print(fib(17), s, #t, table.concat(t, ",", 1, 20), words.the)
local f = load("local x = ... ; return function(y) return x + y end")
print(f(3)(4))
