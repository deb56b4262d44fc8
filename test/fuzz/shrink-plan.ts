import type { ConnectionPlan, Plan, Step } from './connection-plans.ts'

const MAX_TRIES = 60

/**
 * Removes every connection, step, piece and cut that the violation does not need.
 * @param breaks runs a plan
 */
export async function shrink(plan: Plan, breaks: (plan: Plan) => Promise<boolean>): Promise<Plan> {
  let smallest = plan
  let tries = 0
  for (let isSmaller = true; isSmaller; ) {
    isSmaller = false
    for (const smaller of smallerThan(smallest)) {
      if (tries++ >= MAX_TRIES) return smallest
      if (!(await breaks(smaller))) continue
      smallest = smaller
      isSmaller = true
      break
    }
  }
  return smallest
}

/** Large parts first. */
function* smallerThan(plan: Plan): Generator<Plan> {
  if (plan.length > 1) for (const index of plan.keys()) yield plan.toSpliced(index, 1)
  for (const [index, connection] of plan.entries()) {
    for (const smaller of smallerConnections(connection)) yield plan.with(index, smaller)
  }
}

function* smallerConnections({ listener, steps }: ConnectionPlan): Generator<ConnectionPlan> {
  for (const index of steps.keys()) yield { listener, steps: steps.toSpliced(index, 1) }
  for (const [index, step] of steps.entries()) {
    for (const smaller of smallerSteps(step)) yield { listener, steps: steps.with(index, smaller) }
  }
}

function* smallerSteps(step: Step): Generator<Step> {
  if (step.do !== 'send') return
  const { pieces } = step
  if (pieces.length > 1) {
    for (const index of pieces.keys()) yield { do: 'send', pieces: pieces.toSpliced(index, 1) }
  }
  for (const [index, piece] of pieces.entries()) {
    if (!piece.text.includes('{cut}')) continue
    const whole = { ...piece, text: piece.text.replaceAll('{cut}', '') }
    yield { do: 'send', pieces: pieces.with(index, whole) }
  }
}
