import bars from 'cli-progress'

export interface Progress {
  show(done: number, total: number): void
  end(): void
}

const FORMAT = '{bar} {percentage} % | {value} of {total} | {eta_formatted} left'
/** Number of lines that a log gets. */
const LOG_LINES = 10

/** A bar at a terminal, a few plain lines in a log, and nothing for programs. */
export function createProgress(
  stream: NodeJS.WriteStream,
  forProgram: boolean,
  unit = 'keys written',
): Progress {
  if (stream.isTTY === true) return createBar(stream)
  return forProgram ? { show() {}, end() {} } : createLines(stream, unit)
}

function createBar(stream: NodeJS.WriteStream): Progress {
  // Ctrl-C must end the program: the bar installs no handler, and changes no terminal mode that would need restoring.
  const options = { stream, format: FORMAT, gracefulExit: false, linewrap: true }
  const bar = new bars.SingleBar(options, bars.Presets.shades_classic)
  let started = false
  return {
    show(done, total) {
      if (started) bar.setTotal(total)
      else bar.start(total, 0)
      started = true
      bar.update(done)
    },
    end: () => bar.stop(),
  }
}

function createLines(stream: NodeJS.WriteStream, unit: string): Progress {
  let linesWritten = 0
  return {
    show(done, total) {
      const part = total === 0 ? LOG_LINES : Math.floor((done / total) * LOG_LINES)
      if (part <= linesWritten) return
      linesWritten = part
      stream.write(`${done} of ${total} ${unit}\n`)
    },
    end() {},
  }
}
