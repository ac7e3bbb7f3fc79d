-- Has this session told which leases ended.
LISTEN hapax_ended;
