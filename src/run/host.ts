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
  onSignal(name: 'SIGTERM' | 'SIGINT', listener: () => void): void
  /** Errors that nobody caught. */
  onFault(listener: (error: unknown) => void): void
}

/** Exit codes, after sysexits.h where it has one. */
export const EXIT = { ok: 0, failure: 1, usage: 64, config: 78, interrupted: 130 } as const
