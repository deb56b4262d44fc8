/** A command that could not do its work: what a person is told of it, and the exit code that a script sees. */
export class CliError extends Error {
  readonly exitCode: number

  constructor(message: string, exitCode: number) {
    super(message)
    this.exitCode = exitCode
  }
}
