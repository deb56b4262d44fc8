import { type DestinationStream, type Logger, pino } from 'pino'

/** Logs JSON lines. Callers name each field, so that no object is logged whole and no redaction is needed. */
export function createLogger(level: string, destination: DestinationStream): Logger {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination)
}
