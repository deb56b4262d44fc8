export interface HostStreams {
  readonly input: NodeJS.ReadStream
  readonly output: NodeJS.WriteStream
  readonly errors: NodeJS.WriteStream
}

/** Everything the program uses of its process, in one value that a test can replace. */
export interface Host {
  /** Arguments after the program's name. */
  readonly argv: readonly string[]
  readonly nodeVersion: string
  readonly environment: NodeJS.ProcessEnv
  /** Standard output. */
  write(text: string): void
  /** Standard error. */
  complain(text: string): void
  exit(code: number): void
  /** Whether standard input is a terminal. */
  readonly atTerminal: boolean
  /** For what depends on whether they are a terminal, and on its width. */
  readonly streams: HostStreams
  onSignal(name: 'SIGTERM' | 'SIGINT' | 'SIGHUP', listener: () => void): void
  /** Uncaught exceptions and unhandled rejections. */
  onUncaughtException(listener: (error: unknown) => void): void
}

/** Exit codes, from sysexits.h where it has one. */
export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 64,
  /** The console understood the request and refused it. */
  refused: 65,
  unavailable: 69,
  forbidden: 77,
  config: 78,
  interrupted: 130,
  /** Standard output was closed by its reader. */
  unread: 141,
} as const
