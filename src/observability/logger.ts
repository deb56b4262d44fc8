import { type DestinationStream, type Logger, pino } from 'pino'

/** JSON lines. Fields are named one by one where a line is written: nothing is dumped, nothing redacted after. */
export function createLogger(level: string, destination: DestinationStream): Logger {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination)
}
