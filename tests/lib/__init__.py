"""The test harness: private servers, the daemon under test, a publisher that keeps a log, the invariants."""
