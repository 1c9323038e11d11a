/**
 * How long a test waits at most, in milliseconds: as given, and longer where tests run many times at once (TEST_PATIENCE, a
 * factor): then a machine has too much to do, and what is tried is that nothing is lost, not how fast it is.
 */
export const patient = (millis: number): number => millis * Number(process.env["TEST_PATIENCE"] ?? 1)
