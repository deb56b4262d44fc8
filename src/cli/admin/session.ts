import type { Command } from 'commander'
import type { Host } from '../../run/host.ts'
import type { Cli } from '../cli.ts'
import { AdminClient } from './client.ts'
import { type AccessOptions, readConsoleAccess } from './console-access.ts'

/** What a command that calls the admin API works with. */
export interface AdminSession {
  readonly host: Host
  readonly client: AdminClient
  /** `--json`: print the response of the admin API. */
  readonly json: boolean
}

/** Adds the options that say which console to ask, after a command's own. */
export function addAccessOptions(command: Command): Command {
  return command
    .option('--url <address>', 'address of the console (POSTERN_CONSOLE_URL)')
    .option('--token <token>', 'admin token; visible to other users: prefer POSTERN_ADMIN_TOKEN')
    .option('--token-file <file>', 'file that contains the token (POSTERN_ADMIN_TOKEN_FILE)')
    .option('--context <name>', 'console to ask, of `postern context list` (default: the one in use)')
}

/** For commands that are no lists. */
export function addJsonOption(command: Command): Command {
  return command.option('--json', 'print the response of the admin API')
}

export function openSession({ host }: Cli, command: Command): AdminSession {
  const options = command.opts<AccessOptions & { readonly json?: boolean }>()
  const client = new AdminClient(readConsoleAccess(options, host.environment))
  return { host, client, json: options.json === true }
}
