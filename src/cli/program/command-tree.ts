import { Command } from 'commander'
import { similarTo } from '../../config/similar-name.ts'
import { type Cli, type Define, errorJson, printsJson } from '../cli.ts'

interface TopCommand {
  readonly name: string
  readonly description: string
  /** The rest is loaded only for the command that runs: a gateway needs no table, and no client of the admin API. */
  readonly load: () => Promise<Define>
}

const COMMANDS: readonly TopCommand[] = [
  {
    name: 'demo',
    description: 'run gateway, console and a sample upstream in one process, in memory',
    load: async () => (await import('../commands/servers.ts')).defineDemo,
  },
  {
    name: 'gateway',
    description: 'run the data plane, which verifies keys and forwards requests',
    load: async () => (await import('../commands/servers.ts')).defineGateway,
  },
  {
    name: 'console',
    description: 'run the control plane, which issues, lists and revokes keys',
    load: async () => (await import('../commands/servers.ts')).defineConsole,
  },
  {
    name: 'keys',
    description: 'issue, list, edit, rotate, suspend and revoke keys, through the console',
    load: async () => (await import('../commands/keys/keys.ts')).define,
  },
  {
    name: 'workspaces',
    description: 'list workspaces, through the console',
    load: async () => (await import('../commands/workspaces.ts')).define,
  },
  {
    name: 'refusals',
    description: 'list rejected requests and their reasons',
    load: async () => (await import('../commands/refusals.ts')).define,
  },
  {
    name: 'limits',
    description: 'list rate limits that are nearly used up',
    load: async () => (await import('../commands/limits.ts')).define,
  },
  {
    name: 'tokens',
    description: 'issue, list and revoke admin tokens of programs',
    load: async () => (await import('../commands/tokens.ts')).defineTokens,
  },
  {
    name: 'webhooks',
    description: 'show, set, test and remove webhooks of workspaces',
    load: async () => (await import('../commands/webhooks.ts')).define,
  },
  {
    name: 'whoami',
    description: 'show who the admin token is, and what it may do',
    load: async () => (await import('../commands/tokens.ts')).defineWhoami,
  },
  {
    name: 'audit',
    description: 'list, follow and check the audit log',
    load: async () => (await import('../commands/audit.ts')).define,
  },
  {
    name: 'database',
    description: 'back up, restore and copy the database of the console',
    load: async () => (await import('../commands/database.ts')).define,
  },
  {
    name: 'proxy',
    description: 'forward to the API from this machine, with a key',
    load: async () => (await import('../commands/proxy.ts')).define,
  },
  {
    name: 'context',
    description: 'remember addresses of consoles and APIs, with token and key',
    load: async () => (await import('../commands/context.ts')).define,
  },
  {
    name: 'config',
    description: 'inspect the settings',
    load: async () => (await import('../commands/config.ts')).define,
  },
  {
    name: 'doctor',
    description: 'ask Redis, key service or database, upstream and clock what a process needs of them',
    load: async () => (await import('../commands/doctor.ts')).define,
  },
  {
    name: 'openapi',
    description: 'print the public API, or the admin API, as an OpenAPI 3.1 document',
    load: async () => (await import('../commands/config.ts')).defineOpenApi,
  },
  {
    name: 'completion',
    description: 'print a script that completes commands and options in a shell',
    load: async () => (await import('../commands/completion.ts')).define,
  },
]

/**
 * The commands.
 * @param loads whether a top-level command is loaded in full; the others have only their names
 */
export async function createCommandTree(cli: Cli, loads: (name: string) => boolean): Promise<Command> {
  const program = new Command('postern')
    .description('API key gateway in front of your service')
    .helpCommand(false)
    .configureOutput({
      writeOut: text => cli.host.write(text),
      writeErr: text => cli.host.writeError(text),
      // The value in `--tokn=…`, and an argument too many, may be secret.
      outputError: (text, write) => {
        const safe = nameMistypedOption(text, cli.host.argv)
          .replace(/^(error: unknown option '[^'=]*)=[\s\S]*'/, "$1'")
          .replace(/^(error: too many arguments [^:]*):[\s\S]*/, '$1.\n')
        write(printsJson(cli.host.argv) ? errorJson(safe.replace(/^error: /, '').trimEnd(), 'usage') : safe)
      },
    })
    .exitOverride()
  for (const { name, description, load } of COMMANDS) {
    const command = program.command(name).description(description)
    if (loads(name)) {
      const define = await load()
      define(command, cli)
    }
  }
  addHelpAndVersion(program, cli.version)
  return program
}

/** Commander looks for required options first: one that is mistyped, such as `--scopes`, would only seem to be missing. */
function nameMistypedOption(text: string, argv: readonly string[]): string {
  const required = /^error: required option '(--[a-z-]+)/.exec(text)?.[1]
  if (required === undefined) return text
  const given = argv.filter(word => word.startsWith('--')).map(word => word.split('=', 1)[0] ?? word)
  const mistyped = given.find(word => similarTo(word, [required]) !== '')
  return mistyped === undefined ? text : `error: unknown option '${mistyped}'\n(Did you mean ${required}?)\n`
}

/** Adds help and version to every command. */
function addHelpAndVersion(described: Command, version: string): void {
  described
    .helpCommand(false)
    .helpOption('-h, --help', 'print this help')
    .version(version, '-V, --version', 'print the version')
  for (const child of described.commands) addHelpAndVersion(child, version)
}
