import { ADMIN_TOKEN, type ConsoleOptions, startConsole } from './console.ts'
import { runPosternHere } from './postern-here.ts'
import type { Exit } from './postern-process.ts'

/** A real console that listens, and the command line on it. It stops when the running test ends. */
export async function startConsoleWithCommands(options: ConsoleOptions = {}) {
  const running = await startConsole(options)
  const url = await running.app.listen({ host: '127.0.0.1', port: 0 })
  const withToken =
    (token: string, more: Record<string, string> = {}) =>
    (...args: string[]): Promise<Exit> =>
      runPosternHere(args, { POSTERN_CONSOLE_URL: url, POSTERN_ADMIN_TOKEN: token, ...more })
  return { ...running, url, withToken, postern: withToken(ADMIN_TOKEN) }
}

export type ConsoleWithCommands = Awaited<ReturnType<typeof startConsoleWithCommands>>
