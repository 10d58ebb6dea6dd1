#include "cohort/native/executor.h"

#include "crew.h"

namespace cohort::native {

PreparedGraph::PreparedGraph(std::shared_ptr<Plan> plan) : plan_(std::move(plan)) {}
PreparedGraph::PreparedGraph(PreparedGraph&&) noexcept = default;
PreparedGraph& PreparedGraph::operator=(PreparedGraph&&) noexcept = default;
PreparedGraph::~PreparedGraph() = default;

void PreparedGraph::update() { plan_->update(); }

Executor::Executor(ExecutorOptions options) : crew_(std::make_shared<Crew>(std::move(options))) {
  crew_->start();
}

Executor::~Executor() { crew_->stop(); }

int Executor::workers() const { return crew_->size(); }

Result<PreparedGraph> Executor::prepare(const Graph& graph) const {
  COHORT_TRY_STATUS(graph.validate());
  return PreparedGraph(std::make_shared<Plan>(graph, crew_->size()));
}

RunResult Executor::run(PreparedGraph& prepared) {
  return crew_->run(*prepared.plan_->graph, prepared.plan_);
}

Result<RunResult> run(const Graph& graph, ExecutorOptions options) {
  Executor executor(std::move(options));
  COHORT_TRY(PreparedGraph prepared, executor.prepare(graph));
  return executor.run(prepared);
}

}  // namespace cohort::native
