export interface HostStreams {
  readonly input: NodeJS.ReadStream
  readonly output: NodeJS.WriteStream
  readonly errors: NodeJS.WriteStream
}

/** What the program has of its process: all of it, in one value, so that a test can stand in for it. */
export interface Host {
  /** Words after the program's own name. */
  readonly argv: readonly string[]
  readonly nodeVersion: string
  readonly environment: NodeJS.ProcessEnv
  /** Standard output. */
  write(text: string): void
  /** Standard error. */
  complain(text: string): void
  exit(code: number): void
  /** Whether a person sits at the other end of standard input. */
  readonly atTerminal: boolean
  /** The streams themselves, for what depends on whether a terminal is there and how wide it is. */
  readonly streams: HostStreams
  onSignal(name: 'SIGTERM' | 'SIGINT' | 'SIGHUP', listener: () => void): void
  /** Once what runs now is at its end, before anything else. */
  nextTick(callback: () => void): void
  /** Errors that nobody caught. */
  onFault(listener: (error: unknown) => void): void
}

/** Exit codes, after sysexits.h where it has one. */
export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 64,
  /** The console understood, and refused. */
  refused: 65,
  unavailable: 69,
  forbidden: 77,
  config: 78,
  interrupted: 130,
  /** Nobody reads standard output any more. */
  unread: 141,
} as const
