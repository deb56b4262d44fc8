import type { Log } from '../../src/observability/failure-log.ts'

export interface LogLine {
  readonly level: 'info' | 'warn' | 'error'
  readonly fields: object
  readonly message: string
}

/** A log that records its lines. */
export class LogSpy implements Log {
  readonly lines: LogLine[] = []

  info(fields: object, message: string): void {
    this.lines.push({ level: 'info', fields, message })
  }

  warn(fields: object, message: string): void {
    this.lines.push({ level: 'warn', fields, message })
  }

  error(fields: object, message: string): void {
    this.lines.push({ level: 'error', fields, message })
  }

  get text(): string {
    return JSON.stringify(this.lines)
  }

  count(message: string): number {
    return this.lines.filter(line => line.message === message).length
  }
}
