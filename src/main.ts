#!/usr/bin/env node
import './supported-node.cjs'

// Imported after the version check: an older Node could not even link them.
const { setDefaultHighWaterMark } = await import('node:stream')
const { runProgram } = await import('./cli/program/program.ts')
const { openStandardOutput } = await import('./run/host.ts')

// The most that a stream holds before it stops reading, in bytes: Node's 64 KiB would be held for each client that reads nothing.
setDefaultHighWaterMark(false, 16 * 1024)

const output = openStandardOutput(() => process.stdout)

await runProgram({
  argv: process.argv.slice(2),
  nodeVersion: process.versions.node,
  environment: process.env,
  write: text => output.write(text),
  writeError: text => process.stderr.write(text),
  exit: code => process.exit(code),
  atTerminal: process.stdin.isTTY === true,
  streams: { input: process.stdin, output, errors: process.stderr },
  onSignal: (name, listener) => process.on(name, listener),
  onUncaughtException: listener => {
    process.on('uncaughtException', listener)
    process.on('unhandledRejection', listener)
  },
})
