import { type DestinationStream, type Logger, pino } from 'pino'

/** JSON lines on standard output. Fields are named one by one where a line is written: nothing is dumped, nothing redacted after. */
export function createLogger(level: string, destination?: DestinationStream): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime }
  return destination === undefined ? pino(options) : pino(options, destination)
}
