import type { Command } from 'commander'
import { systemClock } from '../../domain/clock.ts'
import { relativeTime } from '../../domain/relative-time.ts'
import { readResponse } from '../admin/responses.ts'
import { type AdminSession, addAccessOptions, addJsonOption, openSession } from '../admin/session.ts'
import { whoamiResponse } from '../admin/token-responses.ts'
import type { Define } from '../cli.ts'
import { factLines } from '../output/facts.ts'
import { paintFor } from '../output/paint.ts'
import { minuteOf, plainText } from '../output/text.ts'
import { workspacesText } from '../output/token-text.ts'

/** `postern whoami`: prints the console, the name of the token, and its rights. */
export const define: Define = (whoami, cli) => {
  addAccessOptions(addJsonOption(whoami)).action(async (_, self: Command) => {
    await showCaller(openSession(cli, self))
  })
}

async function showCaller({ client, host, json }: AdminSession): Promise<void> {
  const response = await client.send({ method: 'GET', path: '/whoami' })
  const { actor, name, permissions, workspaces, expiresAt } = readResponse(client, whoamiResponse, response)
  if (json) return host.write(`${response.text}\n`)
  const paint = paintFor(host.streams.output, host)
  const facts = [
    ['Console', client.url],
    ['Actor', plainText(actor)],
    ['Name', name === null ? null : plainText(name)],
    ['Permissions', permissions.map(plainText).join(' ')],
    ['Workspaces', workspacesText(workspaces)],
    ['Expires', expiresAt === null ? 'never' : expiryOf(expiresAt, systemClock.wallMs())],
  ] as const
  host.write(factLines(facts, paint))
}

function expiryOf(expiresAt: string, nowMs: number): string {
  return `${minuteOf(expiresAt)} UTC, ${relativeTime(Date.parse(expiresAt), nowMs)}`
}
