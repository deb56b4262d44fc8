import type { Command } from 'commander'
import { addAccessOptions, addJsonOption, openSession } from '../../admin/session.ts'
import type { Cli } from '../../cli.ts'
import { checkKeyId } from '../../options/key-options.ts'
import { printChange } from '../../output/change-text.ts'

/** `postern keys suspend`. It asks nothing: `resume` reverses it. */
export function addSuspend(keys: Command, cli: Cli): void {
  const description = 'suspend a key: gateways reject it until it is resumed'
  addStep(keys, cli, { name: 'suspend', description, done: 'Suspended' })
}

/** `postern keys resume` */
export function addResume(keys: Command, cli: Cli): void {
  addStep(keys, cli, { name: 'resume', description: 'let a suspended key work again', done: 'Resumed' })
}

interface Step {
  readonly name: 'suspend' | 'resume'
  readonly description: string
  readonly done: string
}

function addStep(keys: Command, cli: Cli, { name, description, done }: Step): void {
  const step = keys.command(name).description(description).argument('<id>', 'the key’s id (key_…)')
  addAccessOptions(addJsonOption(step)).action(async (text: string, _, self: Command) => {
    const id = checkKeyId(text)
    const session = openSession(cli, self)
    const response = await session.client.send({ method: 'POST', path: `/keys/${id}/${name}?wait=1` })
    printChange(session, response, (_key, which) => `${done} ${which}.`)
  })
}
