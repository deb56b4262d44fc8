import { resolve } from 'node:path'
import type { Command } from 'commander'
import { formats } from '../../config/formats.ts'
import { plainPasted } from '../../domain/pasted-text.ts'
import { EXIT, type Host } from '../../run/host.ts'
import { type Cli, CliError, type Define } from '../cli.ts'
import {
  type Context,
  type Contexts,
  checkToken,
  findContextsFile,
  isContextName,
  readContexts,
  unknownContext,
  writeContexts,
} from '../client/session.ts'
import { addListOptions, chooseOutputFormat, type ListView, printList } from '../output/list.ts'
import { readPiped } from '../output/terminal.ts'

const NO_TOKEN = 'Name the file of the admin token in --token-file, or write the token to standard input'

/** `postern context …`: addresses and tokens of consoles, in a file that only its owner can read. */
export const define: Define = (context, cli) => {
  for (const add of [addAdd, addUse, addList, addRemove]) add(context, cli)
}

function addAdd(context: Command, cli: Cli): void {
  context
    .command('add')
    .description('remember a console; its token is read from standard input, or from a file at each command')
    .argument('<name>', 'name of the context')
    .requiredOption('--url <address>', 'address of the console')
    .option('--token-file <file>', 'file that contains the admin token')
    .action(async (name: string, { url, tokenFile }: { url: string; tokenFile?: string }) => {
      checkNew(name, url)
      const { contexts, ...rest } = read(cli.host)
      if (Object.hasOwn(contexts, name)) {
        throw usage(
          `There is a context ${name} already: remove it first (\`postern context remove ${name}\`)`,
        )
      }
      const secret = tokenFile === undefined ? await readToken(cli.host) : { tokenFile: resolve(tokenFile) }
      write(cli.host, { current: name, ...rest, contexts: { ...contexts, [name]: { url, ...secret } } })
      cli.host.writeError(
        `Added ${name}. ${rest.current === undefined ? 'It is in use.' : `In use is ${rest.current}.`}\n`,
      )
    })
}

function addUse(context: Command, { host }: Cli): void {
  context
    .command('use')
    .description('choose the console that commands ask')
    .argument('<name>', 'name of the context')
    .action((name: string) => {
      const { contexts } = requireContext(host, name)
      write(host, { current: name, contexts })
      host.writeError(`In use is ${name}.\n`)
    })
}

interface ShownContext {
  readonly name: string
  readonly url: string
  /** Where the token is; never the token. */
  readonly token: string
  readonly current: boolean
}

const VIEW: ListView<ShownContext> = {
  name: 'contexts',
  columns: [
    { title: 'NAME', text: ({ name }) => name },
    { title: 'URL', text: ({ url }) => url },
    { title: 'TOKEN', text: ({ token }) => token, atLeast: 12, leaves: 1 },
    { title: 'IN USE', text: ({ current }) => (current ? 'yes' : '') },
  ],
  id: ({ name }) => name,
  whenEmpty: 'There are no contexts: `postern context add` adds one.',
}

function addList(context: Command, { host }: Cli): void {
  const list = context.command('list').description('list the contexts')
  addListOptions(list).action(async (_, self: Command) => {
    const { current, contexts } = read(host)
    const shown = Object.entries(contexts).map(([name, { url, tokenFile = 'saved' }]) => ({
      name,
      url,
      token: tokenFile,
      current: name === current,
    }))
    await printList(host, chooseOutputFormat(self), VIEW, [shown])
  })
}

function addRemove(context: Command, { host }: Cli): void {
  context
    .command('remove')
    .description('forget a console, and its token')
    .argument('<name>', 'name of the context')
    .action((name: string) => {
      const { current, contexts } = requireContext(host, name)
      const { [name]: _, ...others } = contexts
      const left: Contexts = { contexts: others }
      write(host, current === undefined || current === name ? left : { current, ...left })
      host.writeError(`Removed ${name}.\n`)
    })
}

function checkNew(name: string, url: string): void {
  if (!isContextName(name)) throw usage('The name of a context is 1 to 64 letters, digits, ".", "_" and "-"')
  if (formats['http-url']?.accepts(url) !== true)
    throw usage(`--url must be ${formats['http-url']?.expectation}`)
}

async function readToken({ streams }: Host): Promise<Pick<Context, 'token'>> {
  // Typed at a terminal, it would stay on the screen.
  if (streams.input.isTTY === true) throw usage(NO_TOKEN)
  const token = plainPasted(await readPiped(streams, 'token'))
  if (token === '') throw usage(NO_TOKEN)
  checkToken({ source: 'Standard input', text: token })
  return { token }
}

function requireContext(host: Host, name: string): Contexts {
  const found = read(host)
  if (!Object.hasOwn(found.contexts, name)) throw unknownContext(name, Object.keys(found.contexts))
  return found
}

function read(host: Host): Contexts {
  return readContexts(findContextsFile(host.environment))
}

function write(host: Host, contexts: Contexts): void {
  writeContexts(findContextsFile(host.environment), contexts)
}

function usage(message: string): CliError {
  return new CliError(message, EXIT.usage)
}
