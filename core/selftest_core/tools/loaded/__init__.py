"""mngr loaded once and forked for each call, which takes a fraction of the time that each start of it takes."""
