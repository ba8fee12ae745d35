-- Reports which commands the caller's user may not run. It runs none of them but TIME and
-- INFO, which some services forbid only in scripts.
-- ARGV: the words of a command, each as one argument, then an empty one; and so on.
-- Replies: OK, then the numbers of the forbidden commands, from 1, negative for those that the server does not
--          have, and for TIME and INFO, if they are allowed and fail, a text
--          | OLD: the server is older than 7.0 and cannot check this
if not redis.acl_check_cmd then return { 'OLD' } end
local reply, words, n = { 'OK' }, {}, 0
local calls = { TIME = true, INFO = true }
for _, word in ipairs(ARGV) do
  if word ~= '' then
    words[#words + 1] = word
  else
    n = n + 1
    local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
    if not known then
      reply[#reply + 1] = -n
    elseif not allowed then
      reply[#reply + 1] = n
    elseif #words == 1 and calls[words[1]] then
      local answer = redis.pcall(words[1])
      if type(answer) == 'table' and answer.err then reply[#reply + 1] = words[1] .. ' (' .. answer.err .. ')' end
    end
    words = {}
  end
end
return reply
