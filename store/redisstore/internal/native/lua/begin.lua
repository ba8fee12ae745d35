-- Sets up a bucket without a grace period, because no process has ever held a lock of it.
-- Replies: OK, 1 if it had none before
return { 'OK', this.began and 1 or 0 }
