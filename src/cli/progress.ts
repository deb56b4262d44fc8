import bars from 'cli-progress'

export interface Progress {
  show(done: number, total: number): void
  end(): void
}

const FORMAT = '{bar} {percentage} % | {value} of {total} | {eta_formatted} left'
/** How often a log is told, in parts of the whole. */
const PARTS_TOLD = 10

/** A bar where a person looks on, a few plain lines in a log, and for programs nothing. */
export function createProgress(stream: NodeJS.WriteStream, forProgram: boolean): Progress {
  if (stream.isTTY === true) return createBar(stream)
  return forProgram ? { show() {}, end() {} } : createLines(stream)
}

function createBar(stream: NodeJS.WriteStream): Progress {
  // Ctrl-C is to end the program, and not only the bar; so nothing of the terminal is changed that would stay so.
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

function createLines(stream: NodeJS.WriteStream): Progress {
  let told = 0
  return {
    show(done, total) {
      const part = total === 0 ? PARTS_TOLD : Math.floor((done / total) * PARTS_TOLD)
      if (part <= told) return
      told = part
      stream.write(`${done} of ${total} keys written\n`)
    },
    end() {},
  }
}
