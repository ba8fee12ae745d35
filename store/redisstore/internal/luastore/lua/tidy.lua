-- Sweeps a slice.
-- ARGV[6] how many fields
-- Replies: OK, 1 if there is more to sweep
--@include sweep
return { 'OK', sweep(ARGV[6]) }
