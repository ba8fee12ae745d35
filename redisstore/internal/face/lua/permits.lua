-- Says which commands the caller's user may not run. It runs none of them.
-- ARGV: the words of a command, each as one argument, then an empty one; and so on.
-- Replies: OK, then the numbers of the forbidden commands, from 1
--          | OLD: the server is older than 7.0 and cannot tell
if not redis.acl_check_cmd then return { 'OLD' } end
local reply, words, n = { 'OK' }, {}, 0
for _, word in ipairs(ARGV) do
  if word ~= '' then
    words[#words + 1] = word
  else
    n = n + 1
    local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
    if not known or not allowed then reply[#reply + 1] = n end
    words = {}
  end
end
return reply
