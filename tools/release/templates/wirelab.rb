class Wirelab < Formula
  desc "{{.Summary}}"
  homepage "{{.Homepage}}"
  version "{{.Version}}"
  license "{{.Licence}}"

  on_macos do
    on_arm do
      url "{{.Download}}/wirelab_{{.Version}}_darwin_arm64.tar.gz"
      sha256 "{{sum "darwin" "arm64"}}"
    end
    on_intel do
      url "{{.Download}}/wirelab_{{.Version}}_darwin_amd64.tar.gz"
      sha256 "{{sum "darwin" "amd64"}}"
    end
  end

  on_linux do
    on_arm do
      url "{{.Download}}/wirelab_{{.Version}}_linux_arm64.tar.gz"
      sha256 "{{sum "linux" "arm64"}}"
    end
    on_intel do
      url "{{.Download}}/wirelab_{{.Version}}_linux_amd64.tar.gz"
      sha256 "{{sum "linux" "amd64"}}"
    end
  end

  def install
    bin.install "wirelab"
    man1.install Dir["man/*.1"]
    bash_completion.install "completion/wirelab.bash" => "wirelab"
    zsh_completion.install "completion/_wirelab"
    fish_completion.install "completion/wirelab.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/wirelab version")
  end
end
