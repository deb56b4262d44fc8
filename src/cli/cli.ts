import type { Command } from 'commander'
import type { Host } from '../run/host.ts'

/** What every command is defined with. */
export interface Cli {
  readonly host: Host
  readonly version: string
  /** `--help-all`: help shows every setting, with its default. */
  readonly showsAll: boolean
}

/** Adds arguments, options, subcommands and the action to a command that has its name and description. */
export type Define = (command: Command, cli: Cli) => void

/** A command failed: the message is for people, the exit code for scripts. */
export class CliError extends Error {
  readonly exitCode: number

  constructor(message: string, exitCode: number) {
    super(message)
    this.exitCode = exitCode
  }
}

/** The hidden command that the scripts of `postern completion` call. */
export const COMPLETE = '__complete'
