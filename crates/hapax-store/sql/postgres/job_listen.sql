-- Has this session told when there may be something to lease.
LISTEN hapax_jobs;
